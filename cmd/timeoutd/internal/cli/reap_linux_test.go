package cli

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

// The first process of a container is the parent of all orphans. It would wait in vain for the end of a dead one.
func TestTheDeadOfAGroupAreNotWaitedFor(t *testing.T) {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER of prctl(2)
	adopt := func(on uintptr) {
		_, _, errno := syscall.Syscall(syscall.SYS_PRCTL, setChildSubreaper, on, 0)
		require.Zero(t, errno)
	}
	adopt(1)
	defer adopt(0)
	began := time.Now()
	outcome := run(t.Context(), `for i in 1 2 3; do sleep 1000 </dev/null >/dev/null 2>&1 & done; exit 3`, timeoutclient.Leased{})
	require.Equal(t, "exit status 3", outcome.Error)
	require.Less(t, time.Since(began), workGrace)
}
