//go:build interop

package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

// curl, over one connection: a request of three timeouts between two short ones.
func TestCurl(t *testing.T) {
	t.Parallel()
	url := "http://" + exampletest.Serve(t, serve).Addr
	d := 3 * exampletest.Timeout
	out := exampletest.Output(t, exampletest.Program(t, "curl", "curl", "-sS", "--max-time", "30",
		"-w", "%{num_connects}\n", url, fmt.Sprintf("%s/slow?for=%v", url, d), url))
	require.Equal(t, fmt.Sprintf("hello\n1\ndone after %v\n0\nhello\n0\n", d), out)
}
