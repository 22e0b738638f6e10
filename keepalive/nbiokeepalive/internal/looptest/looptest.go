// Package looptest waits for the loops of nbio.
package looptest

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Await waits until the loops of all engines started so far run, before a Stop. A loop forgets a Stop that
// comes before its begin, and then Stop waits for ever.
func Await(t testing.TB) {
	t.Helper()
	started := unseen()
	for begun := time.Now(); len(started) > 0; {
		require.Less(t, time.Since(begun), time.Minute)
		time.Sleep(20 * time.Millisecond) // a look stops the process
		left := unseen()
		started = slices.DeleteFunc(started, func(loop string) bool { return !slices.Contains(left, loop) })
	}
}

// seen are the loops seen running, by their goroutines. A busy one may look as if it had not begun later.
var seen = struct {
	sync.Mutex
	loops map[string]bool
}{loops: make(map[string]bool)}

// unseen returns the loops that were never seen in a system call, or in the program's code.
func unseen() (loops []string) {
	seen.Lock()
	defer seen.Unlock()
	stacks := make([]byte, 1<<17)
	n := runtime.Stack(stacks, true)
	for ; n == len(stacks); n = runtime.Stack(stacks, true) {
		stacks = make([]byte, 2*n)
	}
	for stack := range strings.SplitSeq(string(stacks[:n]), "\n\n") {
		head, calls, _ := strings.Cut(stack, "\n")
		loop, _, _ := strings.Cut(head, " [") // goroutine 7 [syscall]:
		switch {
		case seen.loops[loop] || !strings.Contains(calls, "created by github.com/lesismal/nbio.(*Engine).Start"):
		case strings.HasPrefix(calls, "github.com/lesismal/nbio."):
			loops = append(loops, loop)
		default:
			seen.loops[loop] = true
		}
	}
	return loops
}
