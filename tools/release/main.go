// Command release packs the modules for users, as a proxy would serve them.
//
//	go run ./release check            uses this tree as a stranger would, at a version of its own
//	go run ./release prepare v0.2.0   writes that version into go.mod and go.sum of all modules
//
// See docs/releasing.md.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/semver"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	if err := findModules(root); err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "check":
		return check(root)
	case len(args) == 2 && args[0] == "prepare":
		if v := args[1]; !semver.IsValid(v) || semver.Canonical(v) != v || semver.Major(v) > "v1" {
			return fmt.Errorf("version %s, must be like v0.2.0", v)
		}
		return prepare(root, args[1])
	}
	return fmt.Errorf("arguments %q, must be check, or prepare and a version", args)
}
