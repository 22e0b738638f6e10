package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	must "github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// released makes a repository of three modules, of which fleet needs an internal package of each other, and releases it
// as v0.1.0.
func released(t *testing.T) tree {
	root := t.TempDir()
	modules, err := os.ReadFile("../../scripts/modules")
	must.NoError(t, err)
	files := map[string]string{
		"scripts/modules": string(modules),
		"CHANGELOG.md":    "# Changelog\n\n## v0.1.0\n",
		"go.mod":          "module " + first + "\n\ngo 1.26.0\n",
		"wheel/wheel.go":  "package wheel\n\nfunc New() {}\n",
		"internal/a/a.go": "package a\n\nfunc A() {}\n",

		"internal/redisrun/go.mod": "module " + first + "/internal/redisrun\n\ngo 1.26.0\n",
		"internal/redisrun/run.go": "package redisrun\n\nfunc Run() {}\n",

		"fleet/go.mod": "module " + first + "/fleet\n\ngo 1.26.0\n\nrequire (\n\t" + first + " v0.0.0\n\t" + first + "/internal/redisrun v0.0.0\n)\n",
		"fleet/fleet.go": "package fleet\n\nimport (\n\t\"" + first + "/internal/a\"\n\t\"" + first + "/internal/redisrun\"\n)\n\n" +
			"func Open() { a.A(); redisrun.Run() }\n",
	}
	for _, module := range []string{".", "internal/redisrun", "fleet"} {
		files[filepath.Join(module, "LICENSE")] = "MIT\n"
		files[filepath.Join(module, "go.sum")] = ""
	}
	for name, text := range files {
		must.NoError(t, write(filepath.Join(root, name), []byte(text)))
	}
	must.NoError(t, os.Chmod(filepath.Join(root, "scripts/modules"), 0o755))
	git(t, root, "init", "--quiet")
	commit(t, root)
	tr, err := findTree(root)
	must.NoError(t, err)
	must.Equal(t, []string{".", "internal/redisrun", "fleet"}, tr.modules)
	must.NoError(t, tr.prepare("v0.1.0"))
	commit(t, root)
	git(t, root, "tag", "fleet/v0.1.0")
	git(t, root, "tag", "v0.1.0")
	return tr
}

func git(t *testing.T, dir string, args ...string) {
	env := []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	_, err := command.Output(dir, env, "git", args...)
	must.NoError(t, err)
}

func commit(t *testing.T, dir string) {
	git(t, dir, "add", ".")
	git(t, dir, "-c", "commit.gpgsign=false", "commit", "--quiet", "-m", "x")
}

func (t tree) write(test *testing.T, name, text string) {
	must.NoError(test, write(filepath.Join(t.root, name), []byte(text)))
}

func TestATagWhoseModulesRequireAnotherVersionIsRefused(t *testing.T) {
	tr := released(t)
	must.NoError(t, tr.verify("v0.1.0"))
	must.ErrorContains(t, tr.verify("v0.2.0"), "fleet/go.mod is not that of v0.2.0")
	tr.write(t, "wheel/wheel.go", "package wheel\n\nfunc Other() {}\n")
	must.ErrorContains(t, tr.verify("v0.1.0"), "fleet/go.sum is not that of v0.1.0")
	must.ErrorContains(t, tr.prepare("v0.1.0"), "not committed")
	commit(t, tr.root)
	must.ErrorContains(t, tr.prepare("v0.1.0"), "the tag v0.1.0 exists")
	must.ErrorContains(t, tr.prepare("v0.2.0"), `no line "## v0.2.0"`)
}

// compared compares a tree with its release, and returns what that says.
func compared(t *testing.T, tr tree) (said string, err error) {
	r, w, err := os.Pipe()
	must.NoError(t, err)
	usual := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = usual }()

	dir := t.TempDir()
	proxy, packed := filepath.Join(dir, "proxy"), tree{root: filepath.Join(dir, "tree"), modules: tr.modules}
	must.NoError(t, tr.copyTo(packed.root))
	now := time.Now().UnixNano() // the go command remembers what a version has
	u, err := newUser(packed, filepath.Join(dir, "user"), proxy, fmt.Sprintf("v0.0.0-check.%d", now))
	must.NoError(t, err)
	defer u.forget(&err)
	err = tr.compare(u, proxy, fmt.Sprintf("v0.0.0-check.%d", now-1))
	w.Close()
	text, e := io.ReadAll(r)
	must.NoError(t, e)
	return string(text), err
}

func TestAPatchMustCompileBesideTheLastRelease(t *testing.T) {
	tr := released(t)
	tr.write(t, "CHANGELOG.md", "# Changelog\n\n## v0.1.1\n\n## v0.1.0\n")
	tr.write(t, "wheel/wheel.go", "package wheel\n\nfunc New() {}\n\nfunc More() {}\n")
	tr.write(t, "internal/redisrun/run.go", "package redisrun\n\nfunc Run() {}\n\nfunc More() {}\n")
	said, err := compared(t, tr)
	must.NoError(t, err, said)
	must.Contains(t, said, "More: added")
	must.NotContains(t, said, "needs newer versions")

	// fleet of this tree compiles, and that of v0.1.0 does not.
	tr.write(t, "internal/redisrun/run.go", "package redisrun\n\nfunc Begin() {}\n")
	tr.write(t, "fleet/fleet.go", "package fleet\n\nimport \""+first+"/internal/redisrun\"\n\nfunc Open() { redisrun.Begin() }\n")
	said, err = compared(t, tr)
	must.ErrorContains(t, err, "v0.1.1 breaks what users of v0.1.0 have")
	must.Contains(t, said, "internal/redisrun of this tree needs newer versions of fleet")
	must.Contains(t, said, "undefined: redisrun.Run")
	must.NotContains(t, said, "Incompatible")

	tr.write(t, "CHANGELOG.md", "# Changelog\n\n## v0.2.0\n\n## v0.1.0\n")
	tr.write(t, "wheel/wheel.go", "package wheel\n")
	said, err = compared(t, tr)
	must.NoError(t, err, said)
	must.Contains(t, said, "New: removed")
}

func TestTheLastReleaseIsTheHighestTag(t *testing.T) {
	tr := released(t)
	for _, tag := range []string{"v0.9.0", "v0.10.0", "v0.11.0-rc.1", "fleet/v0.12.0", "v1x"} {
		git(t, tr.root, "tag", tag)
	}
	for heading, want := range map[string]string{"v0.10.1": "v0.10.1", "Unreleased": "", "v0.10.0": ""} {
		tr.write(t, "CHANGELOG.md", "# Changelog\n\n## "+heading+"\n\n## v0.1.0\n")
		last, next, err := tr.versions()
		must.NoError(t, err)
		must.Equal(t, []string{"v0.10.0", want}, []string{last, next})
	}
}

func TestWithoutATagNothingIsCompared(t *testing.T) {
	tr := released(t)
	git(t, tr.root, "tag", "-d", "v0.1.0")
	said, err := compared(t, tr)
	must.NoError(t, err)
	must.Equal(t, "no tag yet, so there is no release to compare with\n", said)
}

func TestWhatMayBreak(t *testing.T) {
	for _, c := range []struct {
		last, next string
		may        bool
	}{{"v0.1.0", "v0.1.1", false}, {"v0.1.0", "v0.2.0", true}, {"v0.9.0", "v1.0.0", true}, {"v1.0.0", "v1.1.0", false}} {
		must.Equal(t, c.may, mayBreak(c.last, c.next), c)
	}
}
