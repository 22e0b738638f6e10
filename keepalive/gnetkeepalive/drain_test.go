package gnetkeepalive

import (
	"context"
	"fmt"
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

func TestDrainSpreadsGoodbyes(t *testing.T) {
	t.Parallel()
	const conns, spread = 500, 5 * time.Second
	w := observe(t, keepalive.Config{Timeout: time.Minute, Tick: 10 * ms, Closing: keepalive.Closing{Farewell: sayBye}}, &app{
		onRefuse: func(_ gnet.Conn, r keepalive.Reason) []byte { return []byte(r.String()) },
	}, gnet.WithNumEventLoop(2))
	clients := make([]net.Conn, conns)
	for i := range clients {
		clients[i] = w.dial(t)
	}
	require.Eventually(t, func() bool { return w.k.Stats().Opened == conns }, eternal, ms)
	var wg sync.WaitGroup
	ends := make([]time.Duration, conns)
	begin := time.Now()
	for i, c := range clients {
		wg.Go(func() {
			got, err := io.ReadAll(c)
			ends[i] = time.Since(begin)
			if err != nil || string(got) != bye {
				t.Errorf("%q: %v", got, err)
			}
		})
	}
	refused := make(chan string, 1)
	time.AfterFunc(spread/2, func() {
		for !w.k.Stats().Draining {
			time.Sleep(ms)
		}
		c, err := net.Dial("tcp", w.addr.String())
		if err != nil {
			refused <- err.Error()
			return
		}
		defer c.Close()
		got, _ := io.ReadAll(c)
		refused <- string(got)
	})
	require.NoError(t, w.k.Drain(context.Background(), spread))
	drained := time.Since(begin)
	require.EqualValues(t, conns, w.app.closed.Load(), "it returns when the last one has gone")
	require.True(t, w.k.Stats().Draining)
	wg.Wait()
	require.Equal(t, "drain", <-refused)
	require.EqualValues(t, conns, w.k.Stats().Closed[keepalive.ReasonDrain])
	require.EqualValues(t, 1, w.k.Stats().RefusedDrain)
	for _, c := range clients {
		w.requireEnd(t, c, keepalive.ReasonDrain)
	}

	// None is closed before its time.
	slices.Sort(ends)
	for i, end := range ends {
		require.GreaterOrEqual(t, end, spread*time.Duration(i)/conns-ms)
	}
	require.Less(t, ends[conns/2], 3*spread, "the median")
	require.Less(t, ends[conns/10], spread, "nor do they all wait for the end")
	require.GreaterOrEqual(t, drained, spread*(conns-1)/conns)

	w.k.Resume()
	say2(t, w.dial(t), "", "hello")
}

func TestDrainThatIsCutShortSaysWhoIsLeft(t *testing.T) {
	t.Parallel()
	const conns = 200
	w := observe(t, keepalive.Config{Timeout: time.Minute, Tick: 10 * ms}, &app{})
	for range conns {
		w.dial(t)
	}
	require.Eventually(t, func() bool { return w.k.Stats().Opened == conns }, eternal, ms)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := w.k.Drain(ctx, time.Minute)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	left := 0
	_, scanned := fmt.Sscanf(err.Error(), "keepalive: drain with %d connections left", &left)
	require.NoError(t, scanned, err)
	require.Less(t, left, conns)
	require.Greater(t, left, conns/2)
	require.LessOrEqual(t, int64(conns-left), w.app.closed.Load())
	require.NoError(t, w.k.Drain(context.Background(), 0), "the others, as fast as can be")
	require.EqualValues(t, conns, w.app.closed.Load())
}

// A connection with its farewell under way has not gone. It has its time, also if the context is over.
func TestDrainWaitsForLastWords(t *testing.T) {
	t.Parallel()
	const conns = 20
	w := observe(t, keepalive.Config{
		Timeout: time.Minute,
		Tick:    10 * ms,
		Closing: keepalive.Closing{Farewell: sayBye, Mode: keepalive.CloseHalf, Timeout: eternal},
	}, &app{})
	var wg sync.WaitGroup
	leave := make(chan bool)
	for range conns {
		c := w.dial(t)
		wg.Go(func() {
			if got, err := io.ReadAll(c); err != nil || string(got) != bye {
				t.Errorf("%q: %v", got, err)
			}
			<-leave
			c.Close()
		})
	}
	require.Eventually(t, func() bool { return w.k.Stats().Opened == conns }, eternal, ms)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- w.k.Drain(ctx, 0) }()
	require.Eventually(t, func() bool { return w.k.Len() == 0 && w.k.Stats().Leaving == conns }, eternal, ms)
	cancel()
	time.AfterFunc(300*ms, func() { close(leave) })
	require.NoError(t, <-drained)
	require.EqualValues(t, conns, w.app.closed.Load())
	wg.Wait()
}

// Constantly touched, held, and with a timeout of its own: nobody stays.
func TestDrainSparesNobody(t *testing.T) {
	t.Parallel()
	a := &app{onOpen: func(gnet.Conn) ([]byte, gnet.Action) { return nil, gnet.None }}
	conns := where(a)
	w := observe(t, keepalive.Config{Timeout: time.Minute, Tick: 10 * ms, Closing: keepalive.Closing{MaxPerSecond: 1}}, a)
	touched, held, patient := w.dial(t), w.dial(t), w.dial(t)
	byPeer := map[string]gnet.Conn{}
	for range 3 {
		conn := <-conns
		byPeer[conn.RemoteAddr().String()] = conn
	}
	defer keepalive.Of(byPeer[held.LocalAddr().String()]).Hold()()
	_, err := keepalive.Of(byPeer[patient.LocalAddr().String()]).SetTimeout(time.Hour)
	require.NoError(t, err)
	stop := make(chan bool)
	var toucher sync.WaitGroup
	toucher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				keepalive.Touch(byPeer[touched.LocalAddr().String()])
			}
		}
	})
	begin := time.Now()
	require.NoError(t, w.k.Drain(context.Background(), 0))
	require.Less(t, time.Since(begin), eternal/4)
	close(stop)
	toucher.Wait()
	for _, c := range []net.Conn{touched, held, patient} {
		w.requireEnd(t, c, keepalive.ReasonDrain)
	}
}

// All fall silent at once, and are closed at the rate.
func TestCloseRate(t *testing.T) {
	t.Parallel()
	const conns, pace = 30, 20
	w := observe(t, keepalive.Config{Closing: keepalive.Closing{MaxPerSecond: pace}}, &app{}, gnet.WithNumEventLoop(2))
	clients := make([]net.Conn, conns)
	begin := time.Now()
	for i := range clients {
		clients[i] = w.dial(t)
	}
	ends := make([]time.Duration, conns)
	for i, c := range clients {
		ends[i] = w.requireEnd(t, c, keepalive.ReasonIdle).Sub(begin)
	}
	slices.Sort(ends)
	require.GreaterOrEqual(t, ends[0], timeout)
	for i, end := range ends { // the rate begins with the first, and may be a tick early
		require.GreaterOrEqual(t, end, timeout+time.Duration(i)*time.Second/pace-20*ms, "%d", i)
	}
}

// The engine stops while connections wait for the rate.
func TestEngineStopsWhileConnectionsWaitForTheRate(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, opts ...gnet.Option) {
		w := observe(t, keepalive.Config{Closing: keepalive.Closing{MaxPerSecond: 1}, Timeout: time.Minute, Tick: 10 * ms}, &app{}, opts...)
		for range 30 {
			w.dial(t)
		}
		require.Eventually(t, func() bool { return w.app.opened.Load() == 30 }, eternal, ms)
		setTimeouts(t, w.k, 100*ms)
		require.Eventually(t, func() bool { return w.app.closed.Load() > 0 }, eternal, ms)
		w.stop(t)
		stats := w.k.Stats()
		require.EqualValues(t, 30, stats.Closed[keepalive.ReasonIdle]+stats.Closed[keepalive.ReasonLocal])
		require.Greater(t, stats.Closed[keepalive.ReasonLocal], uint64(20))
	})
}
