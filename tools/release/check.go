package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// check packs the tree into a proxy of files, and uses its modules from empty ones elsewhere. Their
// version is new each time, and is removed from the module cache at the end.
func (t tree) check() (err error) {
	dir, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	proxy, now := filepath.Join(dir, "proxy"), time.Now().UnixNano()
	copied := tree{root: filepath.Join(dir, "tree"), modules: t.modules}
	if err := t.copyTo(copied.root); err != nil {
		return err
	}
	if err := checkSums(copied.root); err != nil {
		return err
	}
	u, err := newUser(copied, filepath.Join(dir, "user"), proxy, fmt.Sprintf("v0.0.0-check.%d", now))
	if err != nil {
		return err
	}
	defer u.forget(&err)
	all, err := u.list()
	if err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"go.mod and go.sum are complete", u.listAll},
		{"go get of all packages", func() error { return u.getAll(all) }},
		{"a user of keepalive requires no more than it needs", u.requireLittle},
		{"a user of one driver gets no other", func() error { return u.requireOneDriver(all) }},
		{"go install of all commands", func() error { return u.installAll(all) }},
		{"the code that README and docs show", func() error { return u.runExamples(all) }},
		{"the examples, copied", u.copyExamples},
		{"this tree beside the last release", func() error { return t.compare(u, proxy, fmt.Sprintf("v0.0.0-check.%d", now-1)) }},
	} {
		begun := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Printf("ok  %s (%.1fs)\n", step.what, time.Since(begun).Seconds())
	}
	return nil
}

// user is a stranger with an empty folder. Our modules come from the proxy, and all others from the usual
// place.
type user struct {
	tree
	dir     string
	version string
	env     []string
	cache   string // the module cache
}

// newUser packs a tree as a version into a proxy, for a user in dir.
func newUser(t tree, dir, proxy, version string) (*user, error) {
	if err := t.packAll(version, proxy); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	out, err := command.Output(dir, nil, "go", "env", "GOPROXY", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	usual, cache, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return &user{
		tree: t, dir: dir, version: version, cache: cache,
		env: []string{
			"GOPROXY=file://" + filepath.ToSlash(proxy) + "," + usual,
			"GONOSUMDB=" + first, "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw " + os.Getenv("GOFLAGS"),
			"GOBIN=" + filepath.Join(dir, "bin"),
		},
	}, nil
}

// forget removes our modules from the module cache. An error is kept if there is none yet.
func (u *user) forget(err *error) {
	for _, module := range u.modules {
		e := u.forgetOne(modulePath(module))
		if *err == nil {
			*err = e
		}
	}
}

func (u *user) forgetOne(module string) error {
	versions := filepath.Join(u.cache, "cache/download", module, "@v")
	names, err := filepath.Glob(filepath.Join(versions, u.version+".*"))
	if err != nil {
		return err
	}
	if err := dropLine(filepath.Join(versions, "list"), u.version); err != nil {
		return err
	}
	for _, name := range append(names, filepath.Join(u.cache, module)+"@"+u.version) {
		if err := os.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// dropLine removes a line from a file, if it exists.
func dropLine(name, line string) error {
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(strings.ReplaceAll(string(text), line+"\n", "")), 0o644)
}

// start makes an empty module.
func (u *user) start(name string) (dir string, err error) {
	dir = filepath.Join(u.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, u.golang(dir, "mod", "init", "example.com/"+name)
}

func (u *user) golang(dir string, args ...string) error {
	_, err := command.Output(dir, u.env, "go", args...)
	return err
}

// listAll loads all packages and tests of the modules, as users have them: without go.work, and without
// a change of go.mod or go.sum.
func (u *user) listAll() error {
	for _, module := range u.modules {
		if _, err := u.listed(module, "-deps", "-test"); err != nil {
			return err
		}
	}
	return nil
}

// listed returns the output of go list. That changes neither go.mod nor go.sum.
func (u *user) listed(module string, flags ...string) (string, error) {
	env := append(slices.Clone(u.env), "GOFLAGS=-mod=readonly")
	return command.Output(filepath.Join(u.root, module), env, "go", slices.Concat([]string{"list"}, flags, []string{"./..."})...)
}

// published is a package of our modules. What is not hidden, users can import or install.
type published struct {
	module          string // its folder
	path, dir       string
	program, hidden bool
}

// list returns the packages of the tree.
func (u *user) list() (all []published, err error) {
	for _, module := range u.modules {
		out, err := u.listed(module, "-f", "{{.Name}} {{.ImportPath}} {{.Dir}}")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			f := strings.SplitN(strings.TrimSpace(line), " ", 3)
			hidden := strings.Contains(f[1]+"/", "/internal/") || strings.HasSuffix(f[1], "/docs")
			all = append(all, published{module: module, path: f[1], dir: f[2], program: f[0] == "main", hidden: hidden})
		}
	}
	return all, nil
}

// libraries returns the packages of some modules that users can import.
func libraries(all []published, modules []string) (paths []string) {
	for _, p := range all {
		if !p.program && !p.hidden && slices.Contains(modules, p.module) {
			paths = append(paths, p.path)
		}
	}
	return paths
}

// getAll gets every package, and compiles a program with all libraries.
func (u *user) getAll(all []published) error {
	dir, err := u.importing("all", libraries(all, u.modules)...)
	if err != nil {
		return err
	}
	return u.golang(dir, "build", "-o", os.DevNull, ".")
}

// requireLittle gets package keepalive alone.
func (u *user) requireLittle() error {
	dir, err := u.importing("little", first+"/keepalive")
	if err != nil {
		return err
	}
	if err := u.golang(dir, "build", "-o", os.DevNull, "."); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	if n := strings.Count(string(mod), "// indirect"); n > 1 {
		return fmt.Errorf("%d indirect requirements, must be at most 1:\n%s", n, mod)
	}
	return nil
}

// importing makes a tidy module with a program. It imports packages of ours.
func (u *user) importing(name string, paths ...string) (dir string, err error) {
	if dir, err = u.start(name); err != nil {
		return "", err
	}
	program, get := "package main\n\nimport (\n", []string{"get"}
	for _, path := range paths {
		program += fmt.Sprintf("\t_ %q\n", path)
		get = append(get, path+"@"+u.version)
	}
	if err := write(filepath.Join(dir, "main.go"), []byte(program+")\n\nfunc main() {}\n")); err != nil {
		return "", err
	}
	if err := u.golang(dir, get...); err != nil {
		return "", err
	}
	return dir, u.golang(dir, "mod", "tidy")
}

// installAll installs every program for users, and asks it for its flags.
func (u *user) installAll(all []published) error {
	for _, p := range all {
		if !p.program || p.hidden {
			continue
		}
		if err := u.golang(u.dir, "install", p.path+"@"+u.version); err != nil {
			return err
		}
		if _, err := command.Output(u.dir, nil, filepath.Join(u.dir, "bin", path.Base(p.path)), "-h"); err != nil {
			return err
		}
	}
	return nil
}

var packageClause = regexp.MustCompile(`(?m)^package \w+_test$`)

// runExamples copies the examples into a module of the user's, and runs them. The blocks of code in
// README and docs are copies of lines of these examples; a test of package readme says so.
func (u *user) runExamples(all []published) error {
	dir, err := u.start("examples")
	if err != nil {
		return err
	}
	args := []string{"get"}
	for _, module := range u.modules {
		args = append(args, modulePath(module)+"@"+u.version)
	}
	var files []string
	for _, p := range all {
		file := filepath.Join(p.dir, "example_test.go")
		if _, err := os.Stat(file); err == nil {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return fmt.Errorf("no examples in %s", u.root)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !packageClause.Match(text) {
			return fmt.Errorf("%s is in the package that it shows", file)
		}
		relative, err := filepath.Rel(u.root, file)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(dir, relative), text); err != nil {
			return err
		}
	}
	if err := u.golang(dir, args...); err != nil {
		return err
	}
	return u.golang(dir, "test", "-count=1", "-vet=off", "./...") // the linters vet
}
