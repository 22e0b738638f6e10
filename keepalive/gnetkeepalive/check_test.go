package gnetkeepalive

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// A check runs in the event loop, and knows what the socket says. The connection beats on.
func TestChecks(t *testing.T) {
	t.Parallel()
	var received atomic.Uint64
	cfg := keepalive.Config{Timeout: time.Minute, Checks: []keepalive.Check{{
		Name: "gnet_chatty", Every: 20 * ms,
		Inspect: func(_ *keepalive.Guard, info keepalive.Info) (time.Duration, keepalive.Verdict) {
			received.Store(info.Received)
			if info.Age >= 100*ms && info.Received >= 10 {
				return 0, keepalive.Close
			}
			return 0, keepalive.Ignore
		},
	}}}
	w := observe(t, cfg, &app{})
	c := w.dial(t)
	say(t, c, "hello")
	require.Eventually(t, func() bool { return received.Load() == 5 }, eternal, ms)
	say(t, c, "again")
	requireClosed(t, c)
	w.requireEnd(t, c, keepalive.CheckReason("gnet_chatty"))
}
