package main

import (
	"bytes"
	"fmt"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// linesOf counts the lines of Go in folders: in one, or with /... in those below, too, less those after an exclamation mark.
func linesOf(folders ...string) func(house) (counted, error) { return linesIn(".go", folders...) }

// linesIn counts the lines of files with an extension, as linesOf counts those of Go.
func linesIn(ext string, folders ...string) func(house) (counted, error) {
	return func(h house) (counted, error) {
		files, lines, err := size(os.DirFS(h.root), ext, folders)
		return counted{n: lines, of: fmt.Sprintf("in %d files", files)}, err
	}
}

// filesOf counts files, as linesOf counts lines.
func filesOf(folders ...string) func(house) (counted, error) {
	return func(h house) (counted, error) {
		files, _, err := size(os.DirFS(h.root), ".go", folders)
		return counted{n: files}, err
	}
}

func size(tree fs.FS, ext string, folders []string) (files, lines int, err error) {
	for _, folder := range folders {
		if strings.HasPrefix(folder, "!") {
			continue
		}
		top, deep := strings.CutSuffix(folder, "/...")
		err := fs.WalkDir(tree, top, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && name != top && (!deep || strings.HasSuffix(name, "test") || slices.Contains(folders, "!"+name)):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(name, ext) || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			text, err := fs.ReadFile(tree, name)
			files++
			lines += bytes.Count(text, []byte("\n"))
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return files, lines, nil
}

// namesOf counts the exported names of packages.
func namesOf(patterns ...string) func(house) (counted, error) {
	return func(h house) (counted, error) {
		pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes, Dir: h.root}, patterns...)
		if err != nil {
			return counted{}, err
		}
		var all counted
		var each []string
		for _, p := range pkgs {
			if len(p.Errors) > 0 {
				return counted{}, p.Errors[0]
			}
			n := names(p.Types)
			all.n += n
			each = append(each, fmt.Sprintf("%s %d", p.Name, n))
		}
		all.of = strings.Join(each, ", ")
		return all, nil
	}
}

// names counts the exported names in a package's scope, and the exported methods of its types.
func names(p *types.Package) (n int) {
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		n++
		named, ok := types.Unalias(o.Type()).(*types.Named)
		if _, isType := o.(*types.TypeName); !ok || !isType || named.Obj() != o {
			continue
		}
		for m := range named.Methods() {
			if m.Exported() {
				n++
			}
		}
	}
	return n
}

// outlineOf counts the lines that go doc -short prints of a package: one for each name, but one for a type with its
// functions and constants.
func outlineOf(folder string) func(house) (counted, error) {
	return func(h house) (counted, error) {
		out, err := command.Output(filepath.Join(h.root, folder), nil, gotest.GoCommand(), "doc", "-short", ".")
		return counted{n: strings.Count(out, "\n") + 1}, err
	}
}
