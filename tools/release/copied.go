package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// notCopied are the folders of examples in need of other packages of this tree: these are shows of several programs.
var notCopied = []string{"deploy", "fleet"}

// copyExamples copies the folder of each example, without its tests, into a module of the user's, and
// compiles it. An internal package in it is an error then.
func (u *user) copyExamples() error {
	dir, err := u.start("copied")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(u.root, "examples", "*", "*.go"))
	if err != nil {
		return err
	}
	copied := 0
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if slices.Contains(notCopied, name) || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(dir, name, filepath.Base(file)), text); err != nil {
			return err
		}
		copied++
	}
	if copied == 0 {
		return fmt.Errorf("no examples in %s", u.root)
	}
	required, err := requirements(filepath.Join(u.root, "examples", "go.mod"))
	if err != nil {
		return err
	}
	args := []string{"get", first + "@" + u.version}
	if err := u.golang(dir, append(args, required...)...); err != nil {
		return err
	}
	return u.golang(dir, "list", "-export", "./...") // compiles, and links nothing: that takes as long
}

// requirements returns other people's modules in a go.mod, with their versions, but for the indirect ones.
func requirements(name string) (all []string, err error) {
	file, err := readModule(name)
	if err != nil {
		return nil, err
	}
	for _, r := range file.Require {
		if !r.Indirect && !isOurs(r.Mod.Path) {
			all = append(all, r.Mod.String())
		}
	}
	return all, nil
}
