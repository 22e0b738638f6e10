package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// prepare makes the tree ready for the commit of a release, and says what to do then. One commit has
// all tags: the archive of a module does not have the modules in its folders, so the sums of the first
// module don't change as the others learn them.
func prepare(root, version string) error {
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Split(string(changes), "\n"), "## "+version) {
		return fmt.Errorf("CHANGELOG.md has no line %q", "## "+version)
	}
	if dirty, err := command.Output(root, nil, "git", "status", "--porcelain"); err != nil {
		return err
	} else if dirty != "" {
		return fmt.Errorf("these files are not committed:\n%s", dirty)
	}
	for _, dir := range modules {
		there, err := command.Output(root, nil, "git", "tag", "--list", tag(dir, version))
		if err != nil {
			return err
		}
		if there != "" {
			return fmt.Errorf("the tag %s exists", tag(dir, version))
		}
	}
	dir, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	packed := filepath.Join(dir, "tree")
	if err := copyTree(root, packed); err != nil {
		return err
	}
	if err := packAll(packed, version, filepath.Join(dir, "proxy")); err != nil {
		return err
	}
	for _, module := range modules {
		for _, name := range []string{"go.mod", "go.sum"} {
			content, err := os.ReadFile(filepath.Join(packed, module, name))
			if err != nil {
				return err
			}
			if err := write(filepath.Join(root, module, name), content); err != nil {
				return err
			}
		}
	}
	if err := requireElsewhere(root, version); err != nil {
		return err
	}
	fmt.Printf("go.mod and go.sum have %s. Now:\n\n\tgit commit -am 'release %s'\n", version, version)
	for _, dir := range modules {
		fmt.Printf("\tgit tag %s\n", tag(dir, version))
	}
	fmt.Printf("\tgit push --atomic origin HEAD")
	for _, dir := range modules {
		fmt.Printf(" %s", tag(dir, version))
	}
	fmt.Println()
	return nil
}

// requireElsewhere writes the version into the go.mod of the modules of this tree that are not for users.
// They replace ours by folders, but an older version than those folders require is an error.
func requireElsewhere(root, version string) error {
	out, err := command.Output(root, nil, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		name := strings.TrimSpace(line)
		if slices.Contains(modules, filepath.Dir(name)) {
			continue
		}
		if _, err := setVersion(filepath.Join(root, name), version); err != nil {
			return err
		}
	}
	return nil
}
