package gnetkeepalive

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// A shorter and a longer timeout reach a busy connection within the old timeout.
func TestUpdate(t *testing.T) {
	t.Parallel()
	for _, activity := range activities() {
		for name, change := range map[string]struct{ from, to time.Duration }{
			"shorter": {5 * timeout, timeout},
			"longer":  {timeout, 2 * timeout},
		} {
			t.Run(name+"/"+activity.String(), func(t *testing.T) {
				t.Parallel()
				for quick := false; !quick; {
					quick = testUpdate(t, activity, change.from, change.to)
				}
			})
		}
	}
}

// testUpdate reports whether this machine was quick enough for the test: a late beat finds its
// connection closed.
func testUpdate(t *testing.T, activity keepalive.Activity, from, to time.Duration) bool {
	w := observe(t, keepalive.Config{Timeout: from, Tick: 10 * ms, Activity: activity}, &app{})
	c := w.dial(t)
	say(t, c, "hello")
	cfg := w.k.Config()
	cfg.Timeout = to
	require.NoError(t, w.k.Update(cfg))
	last, silent, err := saidFor(c, min(from, 2*timeout)+beat)
	if silent > min(from, to)*3/4 {
		return false
	}
	require.NoError(t, err, "after a silence of %v", silent)
	lived := requireClosed(t, c).Sub(last)
	require.GreaterOrEqual(t, lived, to)
	if to < from {
		require.Less(t, lived, from+stalled(w.k))
	}
	w.requireEnd(t, c, keepalive.ReasonIdle)
	return true
}

// Update sets an age, off before.
func TestUpdateBringsMaxAge(t *testing.T) {
	t.Parallel()
	w := observe(t, keepalive.Config{}, &app{})
	c := w.dial(t)
	say(t, c, "hello")
	cfg := w.k.Config()
	cfg.Age.Max = 50 * ms
	require.NoError(t, w.k.Update(cfg))
	for err := error(nil); err == nil; {
		_, err = c.Write([]byte("x"))
		time.Sleep(ms)
	}
	w.requireEnd(t, c, keepalive.ReasonMaxAge)
	require.Error(t, w.k.Update(keepalive.Config{Timeout: timeout, Tick: 20 * ms}))
}

// The context of a connection is done before the handler hears of the end.
func TestContext(t *testing.T) {
	t.Parallel()
	a := &app{}
	ctxs := make(chan context.Context, 1)
	done := make(chan bool, 1)
	a.onTraffic = func(c gnet.Conn) gnet.Action {
		ctx := keepalive.Of(c).Context()
		if ctx != keepalive.Of(c).Context() {
			t.Error("not the same")
		}
		c.SetContext(ctx)
		ctxs <- ctx
		if buf, _ := c.Next(-1); string(buf) == "close" {
			return gnet.Close
		}
		return gnet.None
	}
	a.onClose = func(c gnet.Conn, err error) gnet.Action {
		ctx := c.Context().(context.Context)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(context.Cause(ctx), err) {
			t.Errorf("%v, and not %v", context.Cause(ctx), err)
		}
		done <- ctx.Err() != nil
		return gnet.None
	}
	w := observe(t, keepalive.Config{}, a)
	for reason, end := range map[keepalive.Reason]func(c net.Conn){
		keepalive.ReasonIdle:  func(net.Conn) {},
		keepalive.ReasonPeer:  func(c net.Conn) { require.NoError(t, c.(*net.TCPConn).CloseWrite()) },
		keepalive.ReasonLocal: func(c net.Conn) { _, _ = c.Write([]byte("close")) },
	} {
		c := w.dial(t)
		_, err := c.Write([]byte("hello"))
		require.NoError(t, err)
		ctx := <-ctxs
		require.NoError(t, ctx.Err())
		end(c)
		<-ctx.Done()
		require.Equal(t, reason, context.Cause(ctx))
		w.requireEnd(t, c, reason)
		require.Equal(t, reason == keepalive.ReasonIdle, <-done)
		if reason == keepalive.ReasonLocal {
			<-ctxs
		}
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	w := observe(t, keepalive.Config{Closing: keepalive.Closing{DryRun: true}, Advise: true}, &app{})
	c := w.dial(t)
	for n := uint64(1); n <= 2; n++ {
		say(t, c, "hello")
		require.Eventually(t, func() bool { return w.k.Stats().WouldClose[keepalive.ReasonIdle] == n }, eternal, ms)
		require.Eventually(t, func() bool { return w.k.Stats().Silences[10].Count == n }, eternal, ms)
	}
	say(t, c, "still here")
	c.Close()
	w.requireEnd(t, c, keepalive.ReasonPeer)
	require.Zero(t, w.k.Stats().Closed[keepalive.ReasonIdle])
}
