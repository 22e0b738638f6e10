package wskeepalive

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testmain.Patient(m)) }

// busyGorilla is a *websocket.Conn of gorilla/websocket while a long message is written.
type busyGorilla struct {
	free  chan bool
	pings []time.Time // their deadlines
}

func (*busyGorilla) PingHandler() func(string) error   { return nil }
func (*busyGorilla) SetPingHandler(func(string) error) {}
func (*busyGorilla) PongHandler() func(string) error   { return nil }
func (*busyGorilla) SetPongHandler(func(string) error) {}

func (b *busyGorilla) WriteControl(kind int, _ []byte, deadline time.Time) error {
	if kind == opPing {
		b.pings = append(b.pings, deadline)
		<-b.free
	}
	return nil
}

// A ping waits for a message being written. With a short deadline it could break that message, and other pings
// need not wait beside it.
func TestPingWaitsForALongMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := keepalive.New(keepalive.Config{Timeout: time.Minute, OnIdle: func(any, keepalive.Reason) keepalive.Verdict { return keepalive.Probe }})
		require.NoError(t, err)
		defer k.Close()
		a, _ := net.Pipe()
		ws := &busyGorilla{free: make(chan bool)}
		guard := keepalive.Of(k.Conn(a))
		require.NoError(t, Gorilla(guard, ws))
		for range 3 {
			time.Sleep(40 * time.Second)
			synctest.Wait()
			guard.Touch() // as if it took bytes
		}
		require.Len(t, ws.pings, 1)
		require.Greater(t, time.Until(ws.pings[0]), 50*time.Minute)
		close(ws.free)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		require.Len(t, ws.pings, 2)
	})
}

// slowCoder is a *websocket.Conn of coder/websocket. After the end of a ping's context the library knows no pong.
type slowCoder struct {
	mu   sync.Mutex
	all  []context.Context
	pong chan bool
}

// pings returns the contexts of all pings.
func (c *slowCoder) pings() []context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

func (c *slowCoder) Ping(ctx context.Context) error {
	c.mu.Lock()
	c.all = append(c.all, ctx)
	c.mu.Unlock()
	select {
	case <-c.pong:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (*slowCoder) Close(int, string) error { return nil }

// bareCoder guards a connection with a slowCoder on it.
func bareCoder(t *testing.T) (*keepalive.Keeper, *keepalive.Guard, *slowCoder) {
	k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
	require.NoError(t, err)
	a, _ := net.Pipe()
	ws := &slowCoder{pong: make(chan bool)}
	guard := keepalive.Of(k.Conn(a))
	require.NoError(t, Coder(guard, ws))
	t.Cleanup(func() {
		require.NoError(t, k.Close())
		close(ws.pong)
	})
	return k, guard, ws
}

// probed lets the connection be silent until it is asked.
func (c *slowCoder) probed(t *testing.T) {
	before := len(c.pings())
	time.Sleep(40 * time.Second)
	synctest.Wait()
	require.Len(t, c.pings(), before+1)
	require.NoError(t, c.pings()[before].Err())
}

// The process may be stopped, so a pong may be late by any time. A ping ends with its connection.
func TestAPingLastsAsLongAsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, guard, ws := bareCoder(t)
		ws.probed(t)
		for range 100 {
			guard.Touch() // as for messages
			time.Sleep(20 * time.Second)
		}
		require.Len(t, ws.pings(), 1)
		require.NoError(t, ws.pings()[0].Err())
		ws.pong <- true
		synctest.Wait()
		require.Equal(t, uint64(1), k.Stats().RoundTrips.Count)

		ws.probed(t)
		guard.Close(keepalive.ReasonLocal)
		synctest.Wait()
		require.Error(t, ws.pings()[1].Err())
	})
}

// A peer may leave a ping without an answer, and live on by messages.
func TestAPingWithoutItsPongIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, guard, ws := bareCoder(t)
		for range 30 {
			ws.probed(t)
			guard.Touch()
		}
		for i, ping := range ws.pings() { // 16, and those of the last minute: one being written must not be ended
			require.Equal(t, i < 12, ping.Err() != nil, "%d", i)
		}
		ws.pong <- true
		synctest.Wait()
		require.Equal(t, uint64(1), k.Stats().RoundTrips.Count)
	})
}

// The end of its context could close the connection.
func TestAPingGoesOnAfterTheEndOfTheKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _, ws := bareCoder(t)
		ws.probed(t)
		require.NoError(t, k.Close())
		time.Sleep(time.Hour)
		require.NoError(t, ws.pings()[0].Err())
	})
}

// The last 16 count, and those before for a minute, if the peer's timeout grants that.
func TestPongsOfASlowPeerCount(t *testing.T) {
	for name, c := range map[string]struct {
		keepalive.Config
		late time.Duration
	}{
		"some pings behind": {keepalive.Config{Timeout: time.Minute, Probe: keepalive.Probing{After: 15 * time.Second, Timeout: 15 * time.Second, Count: 3}}, 22 * time.Second},
		"after a minute":    {keepalive.Config{Timeout: 10 * time.Minute, Probe: keepalive.Probing{After: time.Minute, Timeout: 30 * time.Second, Count: 18}}, 95 * time.Second},
		"many pings behind": {keepalive.Config{Timeout: time.Minute, Probe: keepalive.Probing{After: 15 * time.Second, Timeout: time.Second, Count: 45}}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, err := keepalive.New(c.Config)
				require.NoError(t, err)
				defer k.Close()
				a, _ := net.Pipe()
				guard := keepalive.Of(k.Conn(a))
				require.NoError(t, Coder(guard, farCoder(c.late)))
				time.Sleep(time.Hour)
				require.NoError(t, guard.Context().Err())
				guard.Close(keepalive.ReasonLocal)
				synctest.Wait()
			})
		})
	}
}

// farCoder is a *websocket.Conn of coder/websocket whose peer is slow.
type farCoder time.Duration

func (c farCoder) Ping(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(c)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (farCoder) Close(int, string) error { return nil }
