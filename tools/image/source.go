package main

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// source is a clean clone of one commit. Go stamps programs with the commit, but only in a clone:
// a worktree gets no stamp.
type source struct {
	dir      string
	revision string    // the commit's hash
	version  string    // the first module's tag of it, or the last such tag and the hash
	time     time.Time // of the commit
}

// clone clones the last commit of a repository into dir.
func clone(repo, dir string) (source, error) {
	s := source{dir: dir}
	if _, err := command.Output(".", nil, "git", "clone", "--quiet", "--shared", repo, dir); err != nil {
		return s, err
	}
	var err error
	if s.revision, err = command.Output(dir, nil, "git", "rev-parse", "HEAD"); err != nil {
		return s, err
	}
	if s.version, err = command.Output(dir, nil, "git", "describe", "--tags", "--always", "--abbrev=12", "--match", "v[0-9]*"); err != nil {
		return s, err
	}
	seconds, err := command.Output(dir, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return s, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	s.time = time.Unix(unix, 0).UTC()
	return s, err
}

// build compiles a program for Linux, and returns the static binary.
func (s source) build(p program, arch string) ([]byte, error) {
	file := filepath.Join(filepath.Dir(s.dir), p.name+"-"+arch)
	env := []string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOWORK=", "GOFLAGS=-mod=readonly", "GOEXPERIMENT=",
	}
	if _, err := command.Output(filepath.Join(s.dir, p.module), env, "go", "build", "-trimpath", "-buildvcs=true", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-o", file, p.pkg); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}
