// Package looptest waits for the loops of nbio.
package looptest

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Await waits until the loops of all engines of the process run, before a Stop. A loop forgets a Stop that
// comes before its begin, and then Stop waits for ever.
func Await(t testing.TB) {
	t.Helper()
	for begun := time.Now(); !allRun(); time.Sleep(20 * time.Millisecond) { // a look stops the process
		require.Less(t, time.Since(begun), time.Minute)
	}
}

// allRun reports whether all loops have reached a system call, or the program's code, at least.
func allRun() bool {
	stacks := make([]byte, 1<<17)
	n := runtime.Stack(stacks, true)
	for ; n == len(stacks); n = runtime.Stack(stacks, true) {
		stacks = make([]byte, 2*n)
	}
	for stack := range strings.SplitSeq(string(stacks[:n]), "\n\n") {
		_, calls, _ := strings.Cut(stack, "\n")
		if strings.Contains(calls, "created by github.com/lesismal/nbio.(*Engine).Start") && strings.HasPrefix(calls, "github.com/lesismal/nbio.") {
			return false
		}
	}
	return true
}
