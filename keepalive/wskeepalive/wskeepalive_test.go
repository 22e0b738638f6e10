package wskeepalive

import (
	"context"
	"net"
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
	pings []context.Context
	pong  chan bool
}

func (c *slowCoder) Ping(ctx context.Context) error {
	c.pings = append(c.pings, ctx)
	select {
	case <-c.pong:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (*slowCoder) Close(int, string) error { return nil }

// The process may be stopped, so a pong may be late by any time. A ping ends with its connection.
func TestPongMayComeAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
		require.NoError(t, err)
		defer k.Close()
		a, _ := net.Pipe()
		ws := &slowCoder{pong: make(chan bool)}
		guard := keepalive.Of(k.Conn(a))
		require.NoError(t, Coder(guard, ws))
		for range 10 {
			time.Sleep(40 * time.Second)
			synctest.Wait()
			guard.Touch() // as for messages
		}
		require.Len(t, ws.pings, 1)
		require.NoError(t, ws.pings[0].Err())
		ws.pong <- true
		synctest.Wait()
		require.Equal(t, uint64(1), k.Stats().RoundTrips.Count)

		time.Sleep(40 * time.Second)
		synctest.Wait()
		require.Len(t, ws.pings, 2)
		require.NoError(t, ws.pings[1].Err())
		guard.Close(keepalive.ReasonLocal)
		synctest.Wait()
		require.Error(t, ws.pings[1].Err())
	})
}
