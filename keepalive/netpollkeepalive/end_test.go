//go:build !windows

package netpollkeepalive

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cloudwego/netpoll"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func farewell(any, keepalive.Reason) []byte { return []byte("bye") }

// OnRequest is stuck. The peer sees the end at once, and OnClose comes after OnRequest.
func TestPeerDoesNotWaitForOnRequest(t *testing.T) {
	t.Parallel()
	k, ends := newKeeper(t, keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{Farewell: farewell}})
	stuck, over := make(chan netpoll.Connection, 1), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(over) })
	addr := serve(t, k, "tcp", Handler{OnRequest: func(ctx context.Context, c netpoll.Connection) error {
		stuck <- c
		<-over
		return echo(ctx, c)
	}})
	defer goOn()
	client := dial(t, addr)
	_, err := client.Write([]byte("hello"))
	require.NoError(t, err)
	c := receive(t, stuck)
	require.True(t, keepalive.Of(c).Close(keepalive.ReasonDrain))
	got, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, "bye", string(got))
	require.Empty(t, ends)
	require.False(t, c.IsActive())
	require.Equal(t, 1, k.Stats().Leaving)
	goOn()
	require.Equal(t, end{c, keepalive.ReasonDrain}, receive(t, ends))
}

// After the end, every read and every write returns the reason, also a pending one.
func TestReadAndWriteReturnTheReason(t *testing.T) {
	t.Parallel()
	k, ends := newKeeper(t, keepalive.Config{Timeout: eternal})
	errs := make(chan error, 20)
	addr := serve(t, k, "tcp", Handler{OnRequest: func(_ context.Context, c netpoll.Connection) error {
		if _, err := c.Reader().Next(1); err != nil {
			return err
		}
		if _, err := keepalive.Of(c).SetTimeout(50 * time.Millisecond); err != nil {
			return err
		}
		_, pending := c.Reader().Next(1)
		errs <- pending
		for _, read := range []func() error{
			func() error { _, err := c.Read(make([]byte, 1)); return err },
			func() error { _, err := c.Reader().Peek(1); return err },
			func() error { return c.Reader().Skip(1) },
			func() error { _, err := c.Reader().Until('x'); return err },
			func() error { _, err := c.Reader().ReadString(1); return err },
			func() error { _, err := c.Reader().ReadBinary(1); return err },
			func() error { _, err := c.Reader().ReadByte(); return err },
			func() error { _, err := c.Reader().Slice(1); return err },
			func() error { _, err := c.Write([]byte("x")); return err },
			func() error { return c.Writer().Flush() },
			func() error { errs <- keepalive.ErrIdleTimeout; return c.Close() },
		} {
			if err := read(); err != nil {
				errs <- err
			}
		}
		return nil
	}})
	_, err := dial(t, addr).Write([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, keepalive.ReasonIdle, receive(t, ends).reason)
	require.Len(t, errs, 12)
	for range 12 {
		require.ErrorIs(t, <-errs, keepalive.ErrIdleTimeout)
	}
}

// closedInAWrite has the Keeper close a connection in the middle of a large write. It returns the
// client, and the rest of the message for it.
func closedInAWrite(t *testing.T, k *keepalive.Keeper) (client net.Conn, rest []byte) {
	t.Helper()
	message := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // more than sockets take
	writing := make(chan netpoll.Connection, 1)
	addr := serve(t, k, "tcp", Handler{OnRequest: func(_ context.Context, c netpoll.Connection) error {
		_ = c.Reader().Skip(1)
		writing <- c
		_, err := c.Write(message)
		return err
	}})
	client = dial(t, addr)
	_, err := client.Write([]byte("x"))
	require.NoError(t, err)
	c := receive(t, writing)
	first := make([]byte, 1<<10)
	_, err = io.ReadFull(client, first) // so the write has begun
	require.NoError(t, err)
	require.True(t, keepalive.Of(c).Close(keepalive.ReasonMaxAge))
	return client, message[len(first):]
}

// The program is in the middle of a large write when the Keeper closes the connection. The
// farewell follows the last byte.
func TestFarewellFollowsAWholeWrite(t *testing.T) {
	t.Parallel()
	k, ends := newKeeper(t, keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{
		Farewell: farewell, Timeout: eternal,
	}})
	client, message := closedInAWrite(t, k)
	rest, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, append(message, "bye"...), rest)
	require.Equal(t, keepalive.ReasonMaxAge, receive(t, ends).reason)
}

// A peer does not take the rest of a large write. It gets no farewell in the middle of it.
func TestNoFarewellInTheMiddleOfAWrite(t *testing.T) {
	t.Parallel()
	k, ends := newKeeper(t, keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{
		Farewell: farewell, Timeout: 100 * time.Millisecond,
	}})
	client, message := closedInAWrite(t, k)
	require.Equal(t, keepalive.ReasonMaxAge, receive(t, ends).reason)
	rest, _ := io.ReadAll(client)
	require.Less(t, len(rest), len(message))
	require.True(t, bytes.HasPrefix(message, rest), "there is something else in the middle")
}

// With CloseHalf a peer may not send for ever.
func TestLingerIsBounded(t *testing.T) {
	t.Parallel()
	k, ends := newKeeper(t, keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{
		Mode: keepalive.CloseHalf, Timeout: eternal,
	}})
	connected := make(chan netpoll.Connection, 1)
	addr := serve(t, k, "tcp", Handler{
		OnConnect: func(ctx context.Context, c netpoll.Connection) context.Context {
			connected <- c
			return ctx
		},
		OnRequest: func(context.Context, netpoll.Connection) error {
			t.Error("OnRequest after the end")
			return nil
		},
	})
	client := dial(t, addr)
	require.True(t, keepalive.Of(receive(t, connected)).Close(keepalive.ReasonMaxAge))
	_, err := io.ReadAll(client)
	require.NoError(t, err)
	buf := make([]byte, 64<<10)
	for sent := 0; err == nil; sent += len(buf) {
		require.Less(t, sent, 64<<20)
		_, err = client.Write(buf)
	}
	require.Equal(t, keepalive.ReasonMaxAge, receive(t, ends).reason)
}

// A program is slow twice, and reads all in between. Its peer beats all the time.
func TestSlowTwiceOnAUnixSocket(t *testing.T) {
	t.Parallel()
	for range 10 {
		if slowTwice(t) {
			return
		}
	}
	t.Fatal("the beats of this test are always late")
}

// slowTwice reports whether its own beats were in time.
func slowTwice(t *testing.T) (quick bool) {
	const timeout = time.Second
	k, _ := newKeeper(t, keepalive.Config{Timeout: timeout, Tick: 10 * time.Millisecond})
	gate := make(chan bool, 1)
	addr := serve(t, k, "unix", Handler{OnRequest: func(_ context.Context, c netpoll.Connection) error {
		<-gate
		return c.Reader().Skip(c.Reader().Len())
	}})
	defer close(gate)
	client := dial(t, addr)
	begin := time.Now()
	require.Eventually(t, func() bool { return k.Len() == 1 }, eternal, time.Millisecond)
	for beat := range 10 {
		before := begin
		begin = time.Now()
		_, err := client.Write([]byte("x"))
		if time.Since(before) > timeout*9/10 {
			return false
		}
		require.NoError(t, err, "beat %d", beat)
		if beat == 5 {
			gate <- true
		}
		time.Sleep(timeout * 8 / 10)
		open := k.Len()
		if time.Since(begin) > timeout*9/10 {
			return false
		}
		require.Equal(t, 1, open, "%v", k.Stats().Closed)
	}
	return true
}

// A Unix socket does not know when bytes last arrived.
func TestUnixSockets(t *testing.T) {
	t.Parallel()
	for _, activity := range []keepalive.Activity{keepalive.ActivityRead, keepalive.ActivityReadWrite, keepalive.ActivityKernel} {
		t.Run(activity.String(), func(t *testing.T) {
			t.Parallel()
			for timeout := 400 * time.Millisecond; !testUnixSocket(t, activity, timeout); timeout *= 2 {
				require.Less(t, timeout, eternal/8)
			}
		})
	}
}

// testUnixSocket reports whether this machine was quick enough for the beats of a living peer.
func testUnixSocket(t *testing.T, activity keepalive.Activity, timeout time.Duration) (quick bool) {
	k, ends := newKeeper(t, keepalive.Config{Timeout: timeout, Activity: activity})
	over := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(over) })
	addr := serve(t, k, "unix", Handler{OnRequest: func(_ context.Context, c netpoll.Connection) error {
		<-over
		for {
			b, err := c.Reader().ReadByte()
			if err != nil {
				return err
			}
			if _, err := c.Write([]byte{b}); err != nil {
				return err
			}
		}
	}})
	defer goOn()
	last := time.Now()
	client := dial(t, addr)
	beat := func() (quick bool) {
		now := time.Now()
		_, err := client.Write([]byte("x"))
		if time.Since(last) > timeout/2 {
			return false
		}
		require.NoError(t, err)
		last = now
		return true
	}
	for _, step := range []func(){func() {}, goOn} { // nobody reads at first
		step()
		for begin := time.Now(); time.Since(begin) < 3*timeout; time.Sleep(timeout / 8) {
			if !beat() {
				return false
			}
		}
	}
	ended, begun := len(ends), time.Now()
	if begun.Sub(last) > timeout/2 {
		return false
	}
	require.Zero(t, ended)
	require.Equal(t, keepalive.ReasonIdle, receive(t, ends).reason)
	require.GreaterOrEqual(t, time.Since(begun), timeout/2)
	return true
}
