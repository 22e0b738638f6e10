// Package looptest waits for the loops of nbio.
package looptest

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Await waits until the loops of all engines of the process run, after Start. A loop forgets a Stop that
// comes before its begin, and then Stop waits for ever.
func Await(t testing.TB) {
	t.Helper()
	require.Eventually(t, allRun, time.Minute, time.Millisecond)
}

// allRun reports whether all loops have reached a system call, or the program's code, at least.
func allRun() bool {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		_, calls, _ := strings.Cut(stack, "\n")
		if strings.Contains(calls, "created by github.com/lesismal/nbio.(*Engine).Start") && strings.HasPrefix(calls, "github.com/lesismal/nbio.") {
			return false
		}
	}
	return true
}
