package keepalive

import (
	"context"
	"log/slog"
	"math"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// pipes returns guarded connections, each a second older than the next one.
func pipes(k *Keeper, n int) (conns []net.Conn) {
	for range n {
		c, _ := pipe(k)
		conns = append(conns, c)
		time.Sleep(time.Second)
	}
	return conns
}

func openOf(conns []net.Conn) (open []int) {
	for i, c := range conns {
		if Of(c).isOpen() {
			open = append(open, i)
		}
	}
	return open
}

func TestTheOldestAreShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Timeout: time.Hour, OnClose: c.add})
		conns := pipes(k, 10)
		begun := time.Now()
		n, err := k.Shed(t.Context(), Shed{Share: .39, PerSecond: 2})
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.Equal(t, 1500*ms, time.Since(begun).Truncate(100*ms))
		require.Equal(t, []closing{{conns[0], ReasonShed}, {conns[1], ReasonShed}, {conns[2], ReasonShed}, {conns[3], ReasonShed}}, c.list())
		_, err = conns[0].Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonShed)
		require.True(t, ReasonShed.Retryable())
		require.False(t, k.Stats().Draining)

		n, err = k.Shed(t.Context(), Shed{Count: 100})
		require.NoError(t, err)
		require.Equal(t, 6, n)
		require.Zero(t, k.Len())
		n, err = k.Shed(t.Context(), Shed{Share: 1})
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// OnClose is slow: who has called Shed may end what OnClose uses, as after a drain.
func TestShedWaitsForOnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		k := newKeeper(t, Config{Timeout: time.Hour, OnClose: func(any, Reason) {
			time.Sleep(time.Minute)
			told.Add(1)
		}})
		pipes(k, 3)
		n, err := k.Shed(t.Context(), Shed{Count: 2})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.EqualValues(t, 2, told.Load())
	})
}

// closePanics is a connection of another package.
type closePanics struct{ net.Conn }

func (closePanics) Close() error { panic("in the connection inside") }

func TestShedDoesNotWaitForAConnectionThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Timeout: time.Hour, OnClose: c.add, Logger: slog.New(slog.DiscardHandler)})
		inner, _ := net.Pipe()
		conn := k.Conn(closePanics{inner})
		n, err := k.Shed(t.Context(), Shed{Count: 1})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, []closing{{conn, ReasonShed}}, c.list())
		require.Zero(t, k.Stats().Leaving)
		synctest.Wait() // the worker reports the panic after the end
		require.EqualValues(t, 1, k.Stats().Panics)
		require.NoError(t, inner.Close())
	})
}

func TestShedInNoOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour})
		conns := pipes(k, 100)
		n, err := k.Shed(t.Context(), Shed{Count: 50, Random: true})
		require.NoError(t, err)
		require.Equal(t, 50, n)
		require.Len(t, openOf(conns), 50)
		require.Less(t, openOf(conns)[0], 50)
	})
}

func TestShedRefusesTheImpossible(t *testing.T) {
	k := newKeeper(t, Config{})
	for want, s := range map[string]Shed{
		"Shed.Share -0.1, must be 0 to 1":                       {Share: -.1},
		"Shed.Share 1.1, must be 0 to 1":                        {Share: 1.1},
		"Shed.Share NaN, must be 0 to 1":                        {Share: math.NaN()},
		"Shed.Share 0.2 with Shed.Count 7, one must be zero":    {Share: .2, Count: 7},
		"Shed.Count -1, must not be negative":                   {Count: -1},
		"Shed.PerSecond -1, must not be negative":               {PerSecond: -1},
		"Shed.PerSecond 1000000001, must be at most 1000000000": {PerSecond: 1e9 + 1},
	} {
		_, err := k.Shed(t.Context(), s)
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, "keepalive: invalid argument: "+want)
	}
	n, err := k.Shed(t.Context(), Shed{})
	require.NoError(t, err)
	require.Zero(t, n)
	require.Panics(t, func() { _, _ = new(Keeper).Shed(t.Context(), Shed{}) })
	require.NoError(t, k.Close())
	_, err = k.Shed(t.Context(), Shed{Count: 1})
	require.ErrorIs(t, err, ErrNotGuarded)
}

func TestTheRestStaysIfShedIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Timeout: time.Hour, OnClose: c.add})
		pipes(k, 10)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*ms)
		defer cancel()
		n, err := k.Shed(ctx, Shed{Count: 8, PerSecond: 1})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "keepalive: shed with 5 connections not told: context deadline exceeded")
		require.Equal(t, 3, n)
		time.Sleep(10 * time.Second)
		require.Len(t, c.list(), 3)
		n, err = k.Shed(ctx, Shed{Count: 1})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, n)
		require.Equal(t, 7, k.Len())
	})
}

func TestHeldConnectionsAreShedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour})
		conns := pipes(k, 5)
		defer Of(conns[0]).Hold()()
		defer Of(conns[2]).Hold()()
		_, err := k.Shed(t.Context(), Shed{Count: 2})
		require.NoError(t, err)
		require.Equal(t, []int{0, 2, 4}, openOf(conns))
		_, err = k.Shed(t.Context(), Shed{Count: 2})
		require.NoError(t, err)
		require.Equal(t, []int{2}, openOf(conns))
	})
}

func TestShedTellsAsAtTheMaximumAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		var told sync.Map
		k := newKeeper(t, Config{
			Timeout: time.Hour, OnClose: c.add,
			Age: Age{Max: 24 * time.Hour, Grace: time.Minute, OnMax: func(conn any) { told.Store(conn, time.Now()) }},
		})
		conns := pipes(k, 3)
		begun := time.Now()
		second := make(chan int)
		go func() {
			time.Sleep(time.Second) // the first one is told, and still there
			n, err := k.Shed(t.Context(), Shed{Count: 1})
			if err != nil {
				t.Error(err)
			}
			second <- n
		}()
		n, err := k.Shed(t.Context(), Shed{Count: 1})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, time.Minute, time.Since(begun).Truncate(time.Second))
		require.Equal(t, 1, <-second)
		require.Equal(t, []int{2}, openOf(conns))
		at, ok := told.Load(conns[0])
		require.True(t, ok)
		require.Equal(t, begun, at)
		_, ok = told.Load(conns[2])
		require.False(t, ok)
		require.Equal(t, []closing{{conns[0], ReasonShed}, {conns[1], ReasonShed}}, c.list())

		// If it is cut short, or the connection ends meanwhile, nothing is left half told.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n, err = k.Shed(ctx, Shed{Count: 1})
		require.EqualError(t, err, "keepalive: shed with 1 connections still there: context deadline exceeded")
		require.Equal(t, 1, n)
		time.Sleep(30 * time.Second)
		require.True(t, Touch(conns[2]))
		time.Sleep(30 * time.Second)
		require.Zero(t, k.Len())
	})
}

func TestAFailingOnMaxShedsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var called atomic.Int32
		k := newKeeper(t, Config{Timeout: time.Hour, Logger: slog.New(slog.DiscardHandler), Age: Age{OnMax: func(any) {
			time.Sleep(time.Second)
			if called.Add(1) == 1 {
				runtime.Goexit()
			}
			panic("on purpose")
		}}})
		pipes(k, 2)
		n, err := k.Shed(t.Context(), Shed{Count: 2})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.EqualValues(t, 2, called.Load(), "the end comes after it, also without a grace")
		require.EqualValues(t, 1, k.Stats().Panics)
	})
}

func TestTwoShedsTellDifferentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour})
		conns := pipes(k, 20)
		var wg sync.WaitGroup
		var told atomic.Int64
		for range 2 {
			wg.Go(func() {
				n, err := k.Shed(t.Context(), Shed{Count: 5, PerSecond: 3})
				if err != nil {
					t.Error(err)
				}
				told.Add(int64(n))
			})
		}
		wg.Go(func() { // those that come meanwhile stay, and those that leave by themselves are replaced
			time.Sleep(100 * ms)
			_ = conns[3].Close()
			pipes(k, 1)
		})
		wg.Wait()
		require.EqualValues(t, 10, told.Load())
		require.Equal(t, 20-10-1+1, k.Len())
	})
}

func TestShedAndDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour})
		pipes(k, 20)
		drained := make(chan error)
		go func() {
			time.Sleep(2500 * ms)
			drained <- k.Drain(t.Context(), 10*time.Second)
		}()
		n, err := k.Shed(t.Context(), Shed{Share: .5, PerSecond: 1})
		require.ErrorIs(t, err, ReasonDrain)
		require.EqualError(t, err, "keepalive: shed with 7 connections not told: keepalive: server is shutting down")
		require.Equal(t, 3, n)
		n, err = k.Shed(t.Context(), Shed{Count: 1})
		require.ErrorIs(t, err, ReasonDrain)
		require.Zero(t, n)
		require.NoError(t, <-drained)
		require.Equal(t, map[Reason]uint64{ReasonShed: 3, ReasonDrain: 17}, k.Stats().Closed)
	})
}

func TestShedOfAKeeperThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, Age: Age{Max: time.Hour, Grace: time.Minute, OnMax: func(any) {}}})
		conns := pipes(k, 4)
		time.AfterFunc(1500*ms, func() { _ = k.Close() })
		n, err := k.Shed(t.Context(), Shed{Count: 3, PerSecond: 1})
		require.ErrorIs(t, err, ErrNotGuarded)
		require.Equal(t, 2, n)
		time.Sleep(time.Hour)
		for _, c := range conns {
			require.NoError(t, c.SetReadDeadline(time.Now()))
			_, err := c.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it stays open")
			require.NoError(t, c.(interface{ NetConn() net.Conn }).NetConn().Close())
		}
	})
}

// Neither a dry run nor a rate concerns what the operator wants, and a probe under way does not matter.
func TestShedWhateverTheOtherPoliciesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{
			Timeout: time.Minute, OnClose: c.add, Closing: Closing{DryRun: true, MaxPerSecond: 1},
			Probe: Probing{Send: func(any) error { return nil }},
		})
		conns := pipes(k, 10)
		for _, conn := range conns[5:] {
			Touch(conn)
		}
		for k.Stats().Probes == 0 {
			time.Sleep(time.Second)
		}
		at := slices.IndexFunc(conns, func(c net.Conn) bool {
			g := Of(c)
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.state().Silence.Stage == rules.Probing
		})
		require.GreaterOrEqual(t, at, 0, "one is probed")
		begun := time.Now()
		n, err := k.Shed(t.Context(), Shed{Share: 1})
		require.NoError(t, err)
		require.Equal(t, 10, n)
		require.Less(t, time.Since(begun), time.Second)
		require.EqualValues(t, 10, k.Stats().Closed[ReasonShed])
		require.Empty(t, k.Stats().WouldClose, strconv.Itoa(at))
	})
}
