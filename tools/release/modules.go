package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

const first = "github.com/heartwheel-go/heartwheel"

// tree is a tree of this repository.
type tree struct {
	root    string
	modules []string // folders of the modules for users. Each needs only those before it.
}

// findTree asks scripts/modules for the modules.
func findTree(root string) (t tree, err error) {
	out, err := command.Output(root, nil, "./scripts/modules", "released")
	if err != nil {
		return tree{}, err
	}
	t.root = root
	found := strings.Fields(out)
	var add func(dir string) error
	add = func(dir string) error {
		if slices.Contains(t.modules, dir) {
			return nil
		}
		file, err := readModule(filepath.Join(root, dir, "go.mod"))
		if err != nil {
			return err
		}
		for _, other := range found {
			if slices.ContainsFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == modulePath(other) }) {
				if err := add(other); err != nil {
					return err
				}
			}
		}
		t.modules = append(t.modules, dir)
		return nil
	}
	for _, dir := range found {
		if err := add(dir); err != nil {
			return tree{}, err
		}
	}
	return t, nil
}

func modulePath(dir string) string { return path.Join(first, dir) }

// tag returns the tag of a module's version.
func tag(dir, version string) string { return path.Join(dir, version) }

// checkLicense looks for the licence in a module's own folder. Without one there, a proxy would add the
// first module's, and the sums would be others.
func checkLicense(root, dir string) error {
	want, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return err
	}
	own := filepath.Join(root, dir, "LICENSE")
	if got, err := os.ReadFile(own); err != nil {
		return err
	} else if !bytes.Equal(got, want) {
		return fmt.Errorf("%s is another licence than LICENSE", own)
	}
	return nil
}

func readModule(name string) (*modfile.File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, text, nil)
}

// setVersion writes a version of our modules into a go.mod.
func (t tree) setVersion(name, version string) (*modfile.File, error) {
	file, err := readModule(name)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Clone(file.Require) {
		if t.isPublished(r.Mod.Path) {
			if err := file.AddRequire(r.Mod.Path, version); err != nil {
				return nil, err
			}
		}
	}
	text, err := file.Format()
	if err != nil {
		return nil, err
	}
	return file, os.WriteFile(name, text, 0o644)
}

// require writes a version of the modules before it into a module's go.mod, and their sums into its
// go.sum. It refuses a module if users could not install it.
func (t tree) require(dir, version string, sums []string) error {
	name := filepath.Join(t.root, dir, "go.mod")
	file, err := t.setVersion(name, version)
	if err != nil {
		return err
	}
	if len(file.Replace) > 0 {
		return fmt.Errorf("%s has a replace directive, so nobody can install the module", name)
	}
	for _, r := range file.Require {
		if isOurs(r.Mod.Path) && !t.isPublished(r.Mod.Path) {
			return fmt.Errorf("%s requires %s, and users can't get that", name, r.Mod.Path)
		}
	}
	return addSums(filepath.Join(t.root, dir, "go.sum"), file, sums)
}

func isOurs(path string) bool { return path == first || strings.HasPrefix(path, first+"/") }

// isPublished reports whether users get a module.
func (t tree) isPublished(path string) bool {
	return slices.ContainsFunc(t.modules, func(dir string) bool { return modulePath(dir) == path })
}

// addSums replaces the sums of our modules in a go.sum. It needs those of required modules only.
func addSums(name string, file *modfile.File, sums []string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" || isOurs(strings.Fields(line)[0]) })
	for _, sum := range sums {
		if slices.ContainsFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == strings.Fields(sum)[0] }) {
			lines = append(lines, sum)
		}
	}
	slices.Sort(lines)
	return os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// pack writes a module's version as a proxy serves it, and returns its lines for a go.sum.
func pack(root, dir, version, proxy string) (sums []string, err error) {
	m := module.Version{Path: modulePath(dir), Version: version}
	var packed bytes.Buffer
	if err := modzip.CreateFromDir(&packed, m, filepath.Join(root, dir)); err != nil {
		return nil, err
	}
	mod, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	into := filepath.Join(proxy, m.Path, "@v")
	if err := os.MkdirAll(into, 0o755); err != nil {
		return nil, err
	}
	list := filepath.Join(into, "list")
	versions, err := os.ReadFile(list)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	archive := filepath.Join(into, version+".zip")
	for name, content := range map[string][]byte{
		archive:                              packed.Bytes(),
		filepath.Join(into, version+".mod"):  mod,
		filepath.Join(into, version+".info"): fmt.Appendf(nil, `{"Version":%q}`, version),
		list:                                 append(versions, version+"\n"...),
	} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return nil, err
		}
	}
	all, err := dirhash.HashZip(archive, dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	alone, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(mod)), nil
	})
	if err != nil {
		return nil, err
	}
	return []string{
		fmt.Sprintf("%s %s %s", m.Path, version, all),
		fmt.Sprintf("%s %s/go.mod %s", m.Path, version, alone),
	}, nil
}

// packAll does both for each module of a tree.
func (t tree) packAll(version, proxy string) error {
	var sums []string
	for _, dir := range t.modules {
		if err := t.require(dir, version, sums); err != nil {
			return err
		}
		if err := checkLicense(t.root, dir); err != nil {
			return err
		}
		own, err := pack(t.root, dir, version, proxy)
		if err != nil {
			return fmt.Errorf("packing %s: %w", dir, err)
		}
		sums = append(sums, own...)
	}
	return nil
}

// copyTo copies the files of a tree, but for those ignored by git.
func (t tree) copyTo(to string) error {
	out, err := command.Output(t.root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(t.root, name))
		if os.IsNotExist(err) { // removed, and git not told yet
			continue
		}
		if err != nil {
			return err
		}
		if err := write(filepath.Join(to, name), content); err != nil {
			return err
		}
	}
	return nil
}

func write(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o644)
}
