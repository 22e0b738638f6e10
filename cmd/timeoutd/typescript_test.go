//go:build interop

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The client in clients/typescript is generated from openapi.yaml, and talks to a server with tokens.
func TestTheClientForTypeScriptWorks(t *testing.T) {
	const folder = "../../clients/typescript"
	p := start(t, process{args: []string{"-memory"}, env: []string{"TIMEOUTD_ADMIN_TOKEN=master-0123456789"}})
	npm := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "npm", args...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "TIMEOUTD_URL=http://"+p.addr(t), "TIMEOUTD_TOKEN=master-0123456789")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "npm %v: %s", args, out)
	}
	npm("ci", "--no-audit", "--no-fund")
	generated := filepath.Join(t.TempDir(), "schema.ts")
	npm("run", "openapi", "--", "-o", generated)
	want, err := os.ReadFile(generated)
	require.NoError(t, err)
	have, err := os.ReadFile(folder + "/src/schema.ts")
	require.NoError(t, err)
	require.Equal(t, string(want), string(have), "src/schema.ts is not that of openapi.yaml: npm run generate")
	npm("test")
}
