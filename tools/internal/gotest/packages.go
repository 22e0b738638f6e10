// Package gotest finds packages with tests, and builds and judges their tests, for the tools.
package gotest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// A Package has tests.
type Package struct {
	Module string // its folder
	Dir    string
	Name   string // ./wheel, from the root of the repository
}

// List returns the packages with tests below the folders of the patterns: ./wheel is one folder, ./wheel/...
// is all below it, too. The tags are build tags, with commas between them.
func List(patterns []string, tags string) (chosen []Package, err error) {
	used := make([]bool, len(patterns))
	modules, err := command.Output("..", nil, "./scripts/modules")
	if err != nil {
		return nil, err
	}
	for _, module := range strings.Fields(modules) {
		if !slices.ContainsFunc(patterns, func(pattern string) bool { return concerns(pattern, module) }) {
			continue
		}
		all, err := listModule(module, tags)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			matched := false
			for i, pattern := range patterns {
				if matches(p.Name, pattern) {
					matched, used[i] = true, true
				}
			}
			if matched {
				chosen = append(chosen, p)
			}
		}
	}
	for i, pattern := range patterns {
		if !used[i] {
			return nil, fmt.Errorf("no package with tests matches %q, must be like ./wheel/... or ./wheel", pattern)
		}
	}
	return chosen, nil
}

// InFolder returns the package in a folder, which is named from the root of the repository, such as wheel.
func InFolder(root, folder string) (Package, error) {
	dir := filepath.Join(root, folder)
	for module := dir; ; module = filepath.Dir(module) {
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return Package{Module: module, Dir: dir, Name: "./" + folder}, nil
		}
		if module == root {
			return Package{}, fmt.Errorf("%s is in no module", folder)
		}
	}
}

// Build builds the tests of a package as scripts/gotest does, by scripts/with and with more flags of go test.
func Build(with string, p Package, file string, flags ...string) error {
	args := slices.Concat([]string{"tests", GoCommand(), "test", "-c", "-vet=off", "-o", file}, flags, []string{p.Dir})
	_, err := command.Output(p.Module, nil, with, args...)
	return err
}

func listModule(module, tags string) (all []Package, err error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, module)
	const tested = "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}"
	out, err := command.Output(dir, nil, GoCommand(), "list", "-tags", tags, "-f", tested, "./...")
	if err != nil {
		return nil, err
	}
	for _, folder := range strings.Fields(out) {
		name, err := filepath.Rel(root, folder)
		if err != nil {
			return nil, err
		}
		all = append(all, Package{Module: dir, Dir: folder, Name: "./" + filepath.ToSlash(name)})
	}
	return all, nil
}

// concerns reports whether a module can have packages of a pattern. To list one takes seconds.
func concerns(pattern, module string) bool {
	below, name := strings.TrimSuffix(pattern, "/...")+"/", "./"+module+"/"
	return module == "." || strings.HasPrefix(below, name) || pattern+"/" != below && strings.HasPrefix(name, below)
}

func matches(name, pattern string) bool {
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == above || strings.HasPrefix(name, above+"/")
	}
	return name == strings.TrimSuffix(pattern, "/")
}

// GoCommand is the go command: $GO, if that is set.
func GoCommand() string {
	if name := os.Getenv("GO"); name != "" {
		return name
	}
	return "go"
}
