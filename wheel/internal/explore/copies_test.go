package explore_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	source = "../.." // of package wheel
	here   = "github.com/heartwheel-go/heartwheel/wheel/internal/explore"
)

// instead are the packages in place of the product's imports.
var instead = map[string]string{
	"sync":        here + "/instead/sync",
	"sync/atomic": here + "/instead/atomic",
}

// others are files of the product without a copy: the engine does without them.
var others = map[string]bool{"wheel.go": true}

// patch replaces a piece of a file. The piece must be there once.
type patch struct {
	file     string
	old, new string
}

func (p patch) apply(files map[string]string) error {
	if n := strings.Count(files[p.file], p.old); n != 1 {
		return fmt.Errorf("%s has this piece %d times, must be once; the patch has to follow the product:\n%s", p.file, n, p.old)
	}
	files[p.file] = strings.Replace(files[p.file], p.old, p.new, 1)
	return nil
}

// sources returns the product's files, by their names.
func sources(t *testing.T) map[string]string {
	names, err := filepath.Glob(filepath.Join(source, "*.go"))
	require.NoError(t, err)
	files := map[string]string{}
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") || others[base] {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files[base] = string(text)
	}
	return files
}

// build makes a program of all copies, No file is written into the
// source tree: an overlay of the go command puts the copies there.
func build(t *testing.T, copies map[string][]patch) explorer {
	dir := t.TempDir()
	root, err := filepath.Abs(".")
	require.NoError(t, err)
	overlay := map[string]string{}
	add := func(pkg, name, text string) {
		file := filepath.Join(dir, pkg+"."+name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		overlay[filepath.Join(root, "copies", pkg, name)] = file
	}
	adapter, err := os.ReadFile("adapter/adapter.go")
	require.NoError(t, err)
	var imports, entries strings.Builder
	for i, name := range slices.Sorted(maps.Keys(copies)) {
		files := sources(t)
		for _, p := range copies[name] {
			require.NoError(t, p.apply(files), name)
		}
		files["adapter.go"] = strings.Replace(string(adapter), "//go:build ignore\n", "", 1)
		pkg := fmt.Sprintf("copy%d", i)
		for base, text := range files {
			add(pkg, base, replaceImports(t, base, text))
		}
		fmt.Fprintf(&imports, "%s %q\n", pkg, here+"/copies/"+pkg)
		fmt.Fprintf(&entries, "%q: %s.NewSubject,\n", name, pkg)
	}
	add("main", "main.go", fmt.Sprintf("package main\nimport (\n%q\n%s)\nfunc main() { explore.Main(map[string]explore.NewWheel{\n%s}) }\n",
		here, &imports, &entries))
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600))
	binary := filepath.Join(dir, "explorer")
	// The copies run one actor at a time, so the race detector would find nothing in them, at ten times the cost.
	noRace := "-gcflags=github.com/heartwheel-go/heartwheel/...=-dwarf=false -race=false"
	out, err := exec.Command("go", "build", noRace, "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "./copies/main").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return explorer(binary)
}

// replaceImports replaces what stands for other packages.
func replaceImports(t *testing.T, name, text string) string {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	require.NoError(t, err)
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		if by := instead[path]; by != "" {
			spec.Path = &ast.BasicLit{ValuePos: spec.Path.ValuePos, Kind: token.STRING, Value: strconv.Quote(by)}
		}
	}
	var b strings.Builder
	require.NoError(t, format.Node(&b, set, file))
	return b.String()
}
