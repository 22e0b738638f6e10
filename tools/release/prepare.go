package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// prepare makes the tree ready for the commit of a release, and says what to do then. One commit has
// all tags: the archive of a module does not have the modules in its folders, so the sums of the first
// module don't change as the others learn them.
func prepare(root, version string) error {
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(changes), "\n## "+version) {
		return fmt.Errorf("CHANGELOG.md has no heading %q", "## "+version)
	}
	if dirty, err := output(root, nil, "git", "status", "--porcelain"); err != nil {
		return err
	} else if dirty != "" {
		return fmt.Errorf("these files are not committed:\n%s", dirty)
	}
	tags, err := output(root, nil, "git", "tag", "--list", version)
	if err != nil {
		return err
	}
	if tags != "" {
		return fmt.Errorf("the tag %s exists", version)
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
