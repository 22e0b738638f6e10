package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// prepare makes the tree ready for the commit of a release, and says what to do then. One commit has
// all tags: the archive of a module does not have the modules in its folders, so the sums of the first
// module don't change as the others learn them.
func (t tree) prepare(version string) error {
	changes, err := os.ReadFile(filepath.Join(t.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Split(string(changes), "\n"), "## "+version) {
		return fmt.Errorf("CHANGELOG.md has no line %q", "## "+version)
	}
	if dirty, err := command.Output(t.root, nil, "git", "status", "--porcelain"); err != nil {
		return err
	} else if dirty != "" {
		return fmt.Errorf("these files are not committed:\n%s", dirty)
	}
	for _, dir := range t.modules {
		there, err := command.Output(t.root, nil, "git", "tag", "--list", tag(dir, version))
		if err != nil {
			return err
		}
		if there != "" {
			return fmt.Errorf("the tag %s exists", tag(dir, version))
		}
	}
	files, err := t.prepared(version)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := write(filepath.Join(t.root, name), content); err != nil {
			return err
		}
	}
	if err := t.requireElsewhere(version); err != nil {
		return err
	}
	fmt.Printf("go.mod and go.sum have %s. Now:\n\n\tgit commit -am 'release %s'\n", version, version)
	for _, dir := range t.modules {
		fmt.Printf("\tgit tag %s\n", tag(dir, version))
	}
	// GitHub starts no workflow for more than three tags at once. No module is there before those that it requires.
	fmt.Printf("\tgit push --atomic origin HEAD %s\n\tgit push --atomic origin", version)
	for _, dir := range t.modules {
		if dir != "." {
			fmt.Printf(" %s", tag(dir, version))
		}
	}
	fmt.Println()
	return nil
}

// verify fails if go.mod and go.sum of a module are not as prepare writes them: with the version and the sums
// of the other modules.
func (t tree) verify(version string) error {
	files, err := t.prepared(version)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		got, err := os.ReadFile(filepath.Join(t.root, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, files[name]) {
			return fmt.Errorf("%s is not that of %s: prepare writes it", name, version)
		}
	}
	fmt.Printf("ok  each go.mod and go.sum is that of %s\n", version)
	return nil
}

// prepared returns go.mod and go.sum of the modules at a version, by name.
func (t tree) prepared(version string) (files map[string][]byte, err error) {
	dir, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	packed := tree{root: filepath.Join(dir, "tree"), modules: t.modules}
	if err := t.copyTo(packed.root); err != nil {
		return nil, err
	}
	if err := packed.packAll(version, filepath.Join(dir, "proxy")); err != nil {
		return nil, err
	}
	files = make(map[string][]byte)
	for _, module := range t.modules {
		for _, name := range []string{"go.mod", "go.sum"} {
			name = filepath.Join(module, name)
			if files[name], err = os.ReadFile(filepath.Join(packed.root, name)); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// requireElsewhere writes the version into the go.mod of the modules of this tree that are not for users.
// They replace ours by folders, but an older version than those folders require is an error.
func (t tree) requireElsewhere(version string) error {
	out, err := command.Output(t.root, nil, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		name := strings.TrimSpace(line)
		if slices.Contains(t.modules, filepath.Dir(name)) {
			continue
		}
		if _, err := t.setVersion(filepath.Join(t.root, name), version); err != nil {
			return err
		}
	}
	return nil
}
