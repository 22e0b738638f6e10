package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// apidiff is the program that compares exported names.
const apidiff = "golang.org/x/exp/cmd/apidiff@v0.0.0-20260908205506-85c1c2202aba"

// compare prints how this tree differs from the last release for users, and what of both does not compile together. A
// release that is a patch may break nothing. It packs the last release as a version below that of the user u.
func (t tree) compare(u *user, proxy, version string) (err error) {
	last, next, err := t.versions()
	if err != nil {
		return err
	}
	if last == "" {
		fmt.Println("no tag yet, so there is no release to compare with")
		return nil
	}
	dir, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	from := filepath.Join(dir, "tree")
	if _, err := command.Output(t.root, nil, "git", "clone", "--quiet", "--shared", "--branch", last, ".", from); err != nil {
		return err
	}
	before, err := findTree(from)
	if err != nil {
		return err
	}
	old, err := newUser(before, filepath.Join(dir, "user"), proxy, version)
	if err != nil {
		return err
	}
	defer old.forget(&err)
	all, err := old.list()
	if err != nil {
		return err
	}
	changes, breaks, err := old.changes(u, all)
	if err != nil {
		return err
	}
	apart, err := old.apart(u, all)
	if err != nil {
		return err
	}
	fmt.Printf("exported names since %s:\n%s%s", last, changes, strings.Join(apart, ""))
	if next != "" && !mayBreak(last, next) && (breaks || len(apart) > 0) {
		return fmt.Errorf("%s breaks what users of %s have, and may not: see above", next, last)
	}
	return nil
}

// versions returns the version of the last release that is no prerelease, and of the next one if the changelog has it.
func (t tree) versions() (last, next string, err error) {
	tags, err := command.Output(t.root, nil, "git", "tag", "--list", "v[0-9]*", "--merged", "HEAD")
	if err != nil {
		return "", "", err
	}
	for _, tag := range strings.Fields(tags) {
		if semver.Compare(tag, last) > 0 && semver.Prerelease(tag) == "" {
			last = tag
		}
	}
	changes, err := os.ReadFile(filepath.Join(t.root, "CHANGELOG.md"))
	if err != nil {
		return "", "", err
	}
	heading := regexp.MustCompile(`(?m)^## (.*)$`).FindSubmatch(changes)
	if heading != nil && semver.Compare(string(heading[1]), last) > 0 {
		next = string(heading[1])
	}
	return last, next, nil
}

// mayBreak reports whether users of a version expect that a later one breaks their code.
func mayBreak(last, next string) bool {
	if semver.Major(last) == "v0" {
		return semver.MajorMinor(last) != semver.MajorMinor(next)
	}
	return semver.Major(last) != semver.Major(next)
}

// changes returns what has changed of the exported names between two users' versions, and whether that breaks code.
func (u *user) changes(later *user, all []published) (report string, breaks bool, err error) {
	if err := u.golang(u.dir, "install", apidiff); err != nil {
		return "", false, err
	}
	now, err := later.list()
	if err != nil {
		return "", false, err
	}
	for _, module := range u.modules {
		var changed string
		if before := libraries(all, []string{module}); len(before) == 0 {
			continue
		} else if after := libraries(now, []string{module}); len(after) == 0 {
			changed = "Incompatible changes:\n- all packages: removed\n"
		} else if changed, err = u.diff(later, module, before, after); err != nil {
			return "", false, err
		}
		if changed != "" {
			report += modulePath(module) + "\n" + changed
		}
		breaks = breaks || strings.Contains(changed, "Incompatible changes:")
	}
	return report, breaks, nil
}

// diff compares the packages of one module: apidiff takes all packages below a path for those of the first one's module.
func (u *user) diff(later *user, module string, before, after []string) (string, error) {
	tool, name := filepath.Join(u.dir, "bin", "apidiff"), "names-"+strings.ReplaceAll(modulePath(module), "/", "-")
	export := func(of *user, paths []string) (file string, err error) {
		dir, err := of.importing(name, paths...)
		if err != nil {
			return "", err
		}
		file = filepath.Join(dir, "names")
		_, err = command.Output(dir, of.env, tool, "-m", "-w", file, modulePath(module))
		return file, err
	}
	a, err := export(u, before)
	if err != nil {
		return "", err
	}
	b, err := export(later, after)
	if err != nil {
		return "", err
	}
	changed, err := command.Output(u.dir, nil, tool, "-m", a, b)
	if changed != "" {
		changed += "\n"
	}
	return changed, err
}

// apart returns the modules whose later version does not compile with the earlier version of those that require them.
// Users can have only this mixture: each module requires the others at its own version, and the go command takes the
// highest.
func (u *user) apart(later *user, all []published) (faults []string, err error) {
	for _, below := range u.modules {
		above, err := u.above(below)
		if err != nil {
			return nil, err
		}
		paths := libraries(all, above)
		if len(paths) == 0 || !slices.Contains(later.modules, below) {
			continue
		}
		dir, err := u.importing("beside-"+strings.ReplaceAll(modulePath(below), "/", "-"), paths...)
		if err != nil {
			return nil, err
		}
		err = later.golang(dir, "get", modulePath(below)+"@"+later.version)
		if err == nil {
			err = later.golang(dir, "list", "-export", "./...") // compiles, and links nothing
		}
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s of this tree needs newer versions of %s: %v\n", modulePath(below), strings.Join(above, ", "), err))
		}
	}
	return faults, nil
}

// above returns the modules that require one.
func (u *user) above(below string) (above []string, err error) {
	for _, dir := range u.modules {
		file, err := readModule(filepath.Join(u.root, dir, "go.mod"))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == modulePath(below) }) {
			above = append(above, dir)
		}
	}
	return above, nil
}
