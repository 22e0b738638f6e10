package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	must "github.com/stretchr/testify/require" // this package has a function require

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// The linter golangci-lint, in tools, is compiled with the versions of its own release.
var ofTheLinter = map[string]bool{"github.com/mattn/go-isatty": true, "github.com/spf13/cast": true}

// hasOwnWorkspace reports whether a module has a go.work nearer than that of all. It is compiled with versions of its own.
func hasOwnWorkspace(root, dir string) bool {
	for ; dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.work")); err == nil {
			return true
		}
	}
	return false
}

// A second version of a module below nearly all of ours has nearly all compiled a second time.
func TestModulesRequireTheSameVersions(t *testing.T) {
	const root = "../.."
	out, err := command.Output(root, nil, "./scripts/modules")
	must.NoError(t, err)
	type required struct{ version, by string }
	first := make(map[string]required)
	for _, dir := range strings.Fields(out) {
		file, err := readModule(filepath.Join(root, dir, "go.mod"))
		must.NoError(t, err)
		for _, r := range file.Require {
			if dir == "tools" && ofTheLinter[r.Mod.Path] {
				continue
			}
			want, ok := first[r.Mod.Path]
			if want.by != "." && hasOwnWorkspace(root, dir) { // Caddy is not below ours
				continue
			}
			if !ok {
				want = required{r.Mod.Version, dir}
				first[r.Mod.Path] = want
			}
			must.Equal(t, want.version, r.Mod.Version, "%s and %s require %s", want.by, dir, r.Mod.Path)
		}
	}
	must.Equal(t, "cmd/timeoutd", first["google.golang.org/grpc"].by)
}
