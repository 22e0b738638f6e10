//go:build unix

package fleet

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

func TestANodeThatWakesUpIsRefusedEverywhereAndClosesItsCopies(t *testing.T) {
	t.Parallel()
	r := newReal(t, testserver.SharedRedis(t), 1, nil)
	stopChild(t, r)
}

func TestANodeWithALeaseThatWakesUpIsRefusedEverywhereAndClosesItsCopies(t *testing.T) {
	t.Parallel()
	r := newReal(t, testserver.SharedRedis(t), 1, func(c *Config) { *c = beating(*c) })
	stopChild(t, r, childBeats+"=1")
}

func stopChild(t *testing.T, r *realFleet, env ...string) {
	const count = 1000
	sleeper := startChild(t, r.url, r.prefix, count, env...)
	sleeper.signal(t, syscall.SIGSTOP)
	eventually(t, func() bool { return len(r.diary.by()) == count }, "all are told")
	var taken []*Session
	for i := range count / 2 {
		s, err := comeBack(r.nodes[0], childSession(i))
		require.NoError(t, err)
		taken = append(taken, s)
	}
	sleeper.signal(t, syscall.SIGCONT)
	sessions, refused := sleeper.ask(t)
	eventually(t, func() bool { sessions, refused = sleeper.ask(t); return sessions == 0 }, "all copies are closed")
	require.GreaterOrEqual(t, refused, count) // some hear of it twice
	allAlive(t, taken)
	online, err := r.nodes[0].Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, count/2, online)
	ends := r.diary.by()
	for _, s := range taken {
		require.Less(t, ends[s.ID()].Epoch, s.Epoch())
	}
}

func (c *child) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(sig))
}
