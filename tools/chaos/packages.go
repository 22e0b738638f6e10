package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// pkg is a package with tests.
type pkg struct {
	module string // its folder
	dir    string
	name   string // ./wheel, from the root of the repository
}

// list returns the packages with tests below the folders of the patterns: ./wheel is one folder, ./wheel/...
// is all below it, too.
func list(patterns []string) (chosen []pkg, err error) {
	used := make([]bool, len(patterns))
	modules, err := command.Output("..", nil, "./scripts/modules")
	if err != nil {
		return nil, err
	}
	for _, module := range strings.Fields(modules) {
		all, err := listModule(module)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			matched := false
			for i, pattern := range patterns {
				if matches(p.name, pattern) {
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

func listModule(module string) (all []pkg, err error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, module)
	const tested = "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}"
	out, err := command.Output(dir, nil, goCommand(), "list", "-f", tested, "./...")
	if err != nil {
		return nil, err
	}
	for _, folder := range strings.Fields(out) {
		name, err := filepath.Rel(root, folder)
		if err != nil {
			return nil, err
		}
		all = append(all, pkg{module: dir, dir: folder, name: "./" + filepath.ToSlash(name)})
	}
	return all, nil
}

func matches(name, pattern string) bool {
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == above || strings.HasPrefix(name, above+"/")
	}
	return name == strings.TrimSuffix(pattern, "/")
}

// lasting is the folder for logs.
func lasting() (string, error) {
	dir, err := filepath.Abs("../bin/chaos")
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}
