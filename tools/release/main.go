// Command release packs the modules for users, as a proxy would serve them.
//
//	go run ./release check            uses this tree as a stranger would, at a version of its own
//	go run ./release prepare v0.2.0   writes that version into go.mod and go.sum of all modules
//	go run ./release verify v0.2.0    says whether they have it
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
	t, err := findTree(root)
	if err != nil {
		return err
	}
	if len(args) == 1 && args[0] == "check" {
		return t.check()
	}
	if len(args) != 2 || args[0] != "prepare" && args[0] != "verify" {
		return fmt.Errorf("arguments %q, must be check, or prepare or verify and a version", args)
	}
	version := args[1]
	if !semver.IsValid(version) || semver.Canonical(version) != version || semver.Major(version) > "v1" {
		return fmt.Errorf("version %s, must be like v0.2.0", version)
	}
	if args[0] == "prepare" {
		return t.prepare(version)
	}
	return t.verify(version)
}
