package main

import (
	"path/filepath"
	"testing"

	must "github.com/stretchr/testify/require" // this package has a function require
)

// A second version of a module below nearly all of ours has nearly all compiled a second time.
func TestModulesRequireTheVersionsOfTheFirst(t *testing.T) {
	const root = "../.."
	file, err := readModule(filepath.Join(root, "go.mod"))
	must.NoError(t, err)
	versions := make(map[string]string)
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	must.Contains(t, versions, "golang.org/x/sys")
	must.NoError(t, findModules(root))
	must.Contains(t, modules, "cmd/timeoutd")
	for _, dir := range append(modules, "examples", "bench") {
		file, err := readModule(filepath.Join(root, dir, "go.mod"))
		must.NoError(t, err)
		for _, r := range file.Require {
			if want, ok := versions[r.Mod.Path]; ok {
				must.Equal(t, want, r.Mod.Version, "%s requires %s", dir, r.Mod.Path)
			}
		}
	}
}
