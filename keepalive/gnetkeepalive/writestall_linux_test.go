package gnetkeepalive

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// A peer that takes nothing is closed, though it is held and speaks. Nothing of gnet's buffer is waited for.
func TestAPeerThatTakesNothingIsClosed(t *testing.T) {
	t.Parallel()
	const stall = 600 * ms
	for name, cfg := range map[string]keepalive.Config{
		"stall":  {WriteStall: stall},
		"unsent": {MaxUnsent: 1 << 20, WriteStall: stall}, // so the Keeper looks by then
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reason := keepalive.ReasonWriteStall
			if cfg.MaxUnsent > 0 {
				reason = keepalive.ReasonMaxUnsent
			}
			cfg.Timeout, cfg.Tick = time.Hour, 10*ms
			cfg.Closing = keepalive.Closing{Timeout: eternal, Farewell: func(any, keepalive.Reason) []byte { panic("asked for a farewell") }}
			k := newKeeper(t, cfg)
			ended := make(chan error, 2)
			e := start(t, &app{
				onTraffic: func(c gnet.Conn) gnet.Action {
					word, _ := c.Next(-1)
					if bytes.HasPrefix(word, []byte("more")) { // the first one
						keepalive.Of(c).Hold()
						_, _ = c.Write(make([]byte, 16<<20))
					}
					return gnet.None
				},
				onClose: func(_ gnet.Conn, err error) gnet.Action {
					ended <- err
					return gnet.None
				},
			}, k)
			takes, stuck := e.dialSmall(t), e.dialSmall(t)
			go func() { // little and often, and so much is never there to read
				_, _ = takes.Write([]byte("x"))
				_, _ = io.Copy(io.Discard, takes)
			}()
			begin := time.Now()
			_, err := stuck.Write([]byte("more"))
			require.NoError(t, err)
			for len(ended) == 0 {
				time.Sleep(20 * ms)
				_, _ = stuck.Write([]byte("x"))
				require.Less(t, time.Since(begin), eternal)
			}
			require.ErrorIs(t, <-ended, reason)
			if cfg.MaxUnsent == 0 {
				require.GreaterOrEqual(t, time.Since(begin), stall)
			}
			require.Eventually(t, func() bool { return k.Stats().Closed[reason] == 1 }, eternal, ms)
			require.Equal(t, 1, k.Len(), "the other takes what there is")
			require.Zero(t, k.Stats().Panics)
		})
	}
}
