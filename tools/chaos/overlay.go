package main

import (
	_ "embed"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// disturber is what runtime gets.
//
//go:embed disturb.go.txt
var disturber string

// golang is the Go for building the tests.
type golang struct {
	version string
	src     string // GOROOT/src
}

// installed finds Go. The go command puts a downloaded Go into its module cache, and replaces no file there.
// So all commands of this process use such a Go through a link in dir.
func installed(dir string) (golang, error) {
	out, err := command.Output("..", nil, gotest.GoCommand(), "env", "GOVERSION", "GOROOT", "GOMODCACHE")
	if err != nil {
		return golang{}, err
	}
	said := strings.SplitN(out, "\n", 3)
	g := golang{said[0], filepath.Join(said[1], "src")}
	if !strings.HasPrefix(said[1], said[2]+string(filepath.Separator)) {
		return g, nil
	}
	link := filepath.Join(dir, "goroot")
	g.src = filepath.Join(link, "src")
	return g, errors.Join(
		os.Symlink(said[1], link),
		os.Setenv("GOROOT", link),
		os.Setenv("GOTOOLCHAIN", "local"),
		os.Setenv("GO", filepath.Join(link, "bin/go")),
	)
}

// disturbed makes an overlay with all points in a folder.
func (g golang) disturbed(dir string) (gotest.Overlay, error) {
	made := gotest.Overlay{}
	put := func(file, text string) error { return made.Put(dir, filepath.Join(g.src, file), text) }
	if err := put("runtime/chaos.go", disturber); err != nil {
		return nil, err
	}
	for _, file := range files(points) {
		text, err := g.edited(file, points)
		if err != nil {
			return nil, err
		}
		if err := put(file, text); err != nil {
			return nil, err
		}
		pkg := path.Dir(file)
		if pkg == "runtime" {
			continue
		}
		const declared = "package %s\n\nimport _ \"unsafe\"\n\n//go:linkname disturb runtime.disturb\nfunc disturb()\n"
		if err := put(pkg+"/chaos.go", fmt.Sprintf(declared, path.Base(pkg))); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func files(points []point) (names []string) {
	for _, p := range points {
		if !slices.Contains(names, p.file) {
			names = append(names, p.file)
		}
	}
	return names
}

// edited is a file of Go's library with its points. Each point must be there exactly once.
func (g golang) edited(file string, points []point) (string, error) {
	text, err := os.ReadFile(filepath.Join(g.src, file))
	if err != nil {
		return "", fmt.Errorf("%s is a Go that chaos does not know: %w", g.version, err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	inserts := map[int]string{} // at an offset
	for _, p := range points {
		if p.file != file {
			continue
		}
		var found []*ast.FuncDecl
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && nameOf(f) == p.name {
				found = append(found, f)
			}
		}
		if len(found) != 1 {
			return "", fmt.Errorf("%s is a Go that chaos does not know: %s has %d functions %s, must be 1: see tools/chaos/points.go",
				g.version, filepath.Join(g.src, file), len(found), p.name)
		}
		body := found[0].Body
		switch p.at {
		case begin:
			inserts[set.Position(body.Lbrace).Offset+1] += " " + p.call + "; "
		case second:
			inserts[set.Position(body.List[0].End()).Offset] += "; " + p.call
		case end:
			inserts[set.Position(body.Rbrace).Offset] += "; " + p.call + "; "
		}
	}
	return insert(string(text), inserts), nil
}

// nameOf is the name of a function, with its receiver but without type parameters.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return types.ExprString(f.Recv.List[0].Type) + "." + f.Name.Name
	}
	receiver := star.X
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	return "(*" + types.ExprString(receiver) + ")." + f.Name.Name
}

// insert puts texts into another, at offsets of it.
func insert(text string, at map[int]string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteString(at[i])
		b.WriteByte(text[i])
	}
	return b.String()
}
