package main

import (
	_ "embed"
	"errors"
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// functions is one more file for a mutated package.
//
//go:embed functions.go.txt
var functions string

// subject is a package with all its mutants compiled in.
type subject struct {
	gotest.Package
	loaded  *packages.Package
	failed  map[string]map[int]bool // lines, not compilable with their mutants, by file
	mutants []mutant
	overlay string // a file of the go command
}

func load(p gotest.Package) (*subject, error) {
	mode := packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax | packages.NeedTypes |
		packages.NeedTypesInfo | packages.NeedImports
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: p.Dir, Fset: token.NewFileSet()}, ".")
	if err != nil {
		return nil, err
	}
	if len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		return nil, fmt.Errorf("%s: %d packages, %v", p.Name, len(loaded), loaded[0].Errors)
	}
	return &subject{Package: p, loaded: loaded[0], failed: map[string]map[int]bool{}}, nil
}

// mutate makes the overlay.
func (s *subject) mutate(dir string) error {
	f := finder{pkg: s.loaded}
	o := gotest.Overlay{}
	for i, file := range s.loaded.Syntax {
		name := s.loaded.CompiledGoFiles[i]
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := o.Put(dir, name, f.mutate(file, text, s.failed[filepath.Base(name)])); err != nil {
			return err
		}
	}
	s.mutants, s.overlay = f.found, filepath.Join(dir, "overlay.json")
	return errors.Join(o.Put(dir, filepath.Join(s.Dir, "mutant_functions.go"), fmt.Sprintf(functions, s.loaded.Name)), o.Write(s.overlay))
}

var compileError = regexp.MustCompile(`(?m)^\S*/(?:\d+-)?([^/\s]+\.go):(\d+):\d+: `)

// learn finds lines in the compiler's errors, to be compiled without their mutants. It reports whether some are
// new.
func (s *subject) learn(said string) (more bool) {
	for _, match := range compileError.FindAllStringSubmatch(said, -1) {
		file := match[1]
		line, _ := strconv.Atoi(match[2])
		known := slices.ContainsFunc(s.loaded.CompiledGoFiles, func(name string) bool { return strings.HasSuffix(name, "/"+file) })
		if !known || s.failed[file][line] {
			continue
		}
		if s.failed[file] == nil {
			s.failed[file] = map[int]bool{}
		}
		s.failed[file][line], more = true, true
	}
	return more
}
