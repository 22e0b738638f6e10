package gnetkeepalive

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// The server talks all the time, and hears nothing. Its talk counts for ActivityReadWrite, not
// for ReadIdle.
func TestReadIdle(t *testing.T) {
	t.Parallel()
	a := &app{}
	conns := where(a)
	w := observe(t, keepalive.Config{
		Timeout: time.Minute, Tick: 10 * ms, Activity: keepalive.ActivityReadWrite, ReadIdle: timeout,
	}, a)
	c := w.dial(t)
	conn := <-conns
	stop := make(chan bool)
	var news sync.WaitGroup
	news.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(beat):
				_ = conn.AsyncWrite([]byte("news"), nil)
			}
		}
	})
	begin := time.Now()
	for time.Since(begin) < 2*timeout {
		time.Sleep(beat)
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
	}
	last := time.Now()
	_, err := c.Write([]byte("x"))
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, c)
	require.GreaterOrEqual(t, w.requireEnd(t, c, keepalive.ReasonReadIdle).Sub(last), timeout)
	close(stop)
	news.Wait()
}

// The peer talks all the time, and gets no answer any more.
func TestWriteIdle(t *testing.T) {
	t.Parallel()
	for quick := false; !quick; {
		quick = testWriteIdle(t)
	}
}

// testWriteIdle reports whether this machine was quick enough for the test: a late question finds its
// connection closed.
func testWriteIdle(t *testing.T) bool {
	a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
		if buf, _ := c.Next(-1); string(buf) == "ask" {
			_, _ = c.Write([]byte("yes"))
		}
		return gnet.None
	}}
	w := observe(t, keepalive.Config{Tick: 10 * ms, Timeout: time.Minute, WriteIdle: timeout}, a)
	c := w.dial(t)
	last := time.Now()
	for range 16 {
		time.Sleep(beat)
		if time.Since(last) > timeout*3/4 {
			return false
		}
		last = time.Now()
		require.Equal(t, "yes", ask(t, c, "ask"))
	}
	for err := error(nil); err == nil; { // until the server closes it
		_, err = c.Write([]byte("tell"))
		time.Sleep(10 * ms)
	}
	require.GreaterOrEqual(t, w.requireEnd(t, c, keepalive.ReasonWriteIdle).Sub(last), timeout)
	return true
}

// A large answer to a slow peer is no silence of ours as long as it gets on. gnet has
// it in its buffer, and nobody writes meanwhile.
func TestSlowLargeWriteIsNoIdle(t *testing.T) {
	t.Parallel()
	const size, step = 16 << 20, 128 << 10
	w := observe(t, keepalive.Config{Tick: 10 * ms, Timeout: time.Minute, WriteIdle: timeout}, &app{
		onTraffic: func(c gnet.Conn) gnet.Action {
			_, _ = c.Discard(-1)
			_, _ = c.Write(make([]byte, size))
			return gnet.None
		},
	}, smallSockets)
	c := w.dialSmall(t)
	_, err := c.Write([]byte("all of it, please"))
	require.NoError(t, err)
	begin := time.Now()
	for range size / step {
		_, err := io.CopyN(io.Discard, c, step)
		require.NoError(t, err)
		time.Sleep(timeout / 40)
	}
	require.Greater(t, time.Since(begin), 3*timeout)
	requireClosed(t, c)
	w.requireEnd(t, c, keepalive.ReasonWriteIdle)
}

// A heartbeat before the close cancels it.
func TestTheRateIsNoEndForConnectionsThatAreHeard(t *testing.T) {
	t.Parallel()
	const conns, pace = 24, 5
	for name, cfg := range map[string]keepalive.Config{
		"idle":      {},
		"read_idle": {Timeout: time.Minute, Tick: 10 * ms, ReadIdle: timeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Closing.MaxPerSecond = pace
			w := observe(t, cfg, &app{})
			clients := make([]net.Conn, conns)
			for i := range clients {
				clients[i] = w.dial(t)
				say(t, clients[i], "hello")
			}
			require.Eventually(t, func() bool { return w.app.closed.Load() >= conns/4 }, eternal, ms) // and all others are to be closed
			for begin := time.Now(); time.Since(begin) < timeout+2*beat; time.Sleep(10 * ms) {
				clients = slices.DeleteFunc(clients, func(c net.Conn) bool { return saying(c, "still here") != nil })
			}
			require.GreaterOrEqual(t, len(clients), conns/2)
			late := clients[0]
			last := time.Now()
			say(t, late, "still here")
			requireClosed(t, late)
			reason := keepalive.ReasonIdle
			if cfg.ReadIdle > 0 {
				reason = keepalive.ReasonReadIdle
			}
			require.GreaterOrEqual(t, w.requireEnd(t, late, reason).Sub(last), timeout)
		})
	}
}

// Rates are measured over ten seconds, so this is the slowest test.
func TestRates(t *testing.T) {
	t.Parallel()
	a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
		if buf, _ := c.Next(-1); buf[0] == 'b' {
			keepalive.Touch(c)
		}
		return gnet.None
	}}
	w := observe(t, keepalive.Config{
		Timeout: time.Minute,
		Tick:    50 * ms,
		Rate:    keepalive.Rate{MinBeat: 100 * ms, MinBytes: 1000, Strikes: 1},
	}, a)
	begin := time.Now()
	var wg sync.WaitGroup
	stop := make(chan bool)
	talk := func(every time.Duration, word []byte) net.Conn {
		c := w.dial(t)
		wg.Go(func() {
			for {
				if _, err := c.Write(word); err != nil {
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(every):
				}
			}
		})
		return c
	}
	data := make([]byte, 10_000)
	touch := append([]byte("b"), data[:1000]...)
	good, often, slow, much, silent := talk(400*ms, touch), talk(20*ms, touch), talk(400*ms, data[:1]), talk(20*ms, data), w.dial(t)
	require.GreaterOrEqual(t, w.requireEnd(t, often, keepalive.ReasonTooMany).Sub(begin), 10*time.Second)
	require.GreaterOrEqual(t, w.requireEnd(t, slow, keepalive.ReasonTooSlow).Sub(begin), 10*time.Second)
	time.Sleep(10 * beat) // all began at about the same time
	close(stop)
	wg.Wait()
	for _, c := range []net.Conn{good, much, silent} {
		require.Empty(t, w.endOf(c))
	}
}

// The loop is busy for longer than ReadIdle. The peer has waited for its answer, and has the whole
// time for what it says next.
func TestReadIdleOfABusyLoopKillsNobody(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: eternal, Tick: 10 * ms, ReadIdle: timeout})
	c, last := answeredLate(t, k, 2*timeout)
	require.GreaterOrEqual(t, requireClosed(t, c).Sub(last), timeout)
	require.Positive(t, k.Stats().Closed[keepalive.ReasonReadIdle])
}
