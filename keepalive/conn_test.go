package keepalive

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

// A program that reads and writes with deadlines of its own, in vain, keeps no connection.
func TestReadsAndWritesWithoutBytesAreNoLife(t *testing.T) {
	for name, try := range map[string]func(c net.Conn) (int, error){
		"read":  func(c net.Conn) (int, error) { return c.Read(make([]byte, 1)) },
		"write": func(c net.Conn) (int, error) { return c.Write([]byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, Config{Timeout: 10 * time.Second, Activity: ActivityReadWrite})
				c, peer := pipe(k)
				defer peer.Close()
				begun, err := time.Now(), os.ErrDeadlineExceeded
				for k.Len() > 0 {
					require.ErrorIs(t, err, os.ErrDeadlineExceeded)
					require.NoError(t, c.SetDeadline(time.Now().Add(time.Second)))
					_, err = try(c)
				}
				requireIdleTimeout(t, err)
				require.Less(t, time.Since(begun), 12*time.Second)
				var failed *net.OpError
				require.ErrorAs(t, err, &failed)
				require.Equal(t, name, failed.Op)
				require.Equal(t, "pipe", failed.Net)
			})
		})
	}
}

func TestADeadlineOfTheProgramIsNoEndByThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told closings
		k := newKeeper(t, Config{OnClose: told.add})
		c, peer := pipe(k)
		defer peer.Close()
		require.NoError(t, c.SetReadDeadline(time.Now()))
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, c.Close())
		require.Equal(t, []closing{{c, ReasonLocal}}, told.list())
	})
}

// readEnds is a connection whose Close returns after a Read has failed.
type readEnds struct {
	net.Conn
	err  error // of both, after Close
	read chan struct{}
}

func (c *readEnds) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = c.err
	}
	return n, err
}

func (c *readEnds) Close() error {
	_ = c.Conn.Close()
	<-c.read
	return c.err
}

func TestAReadThatOurCloseEndsIsNoEndByThePeer(t *testing.T) {
	for _, closed := range []error{net.ErrClosed, io.ErrClosedPipe} {
		synctest.Test(t, func(t *testing.T) {
			var told closings
			k := newKeeper(t, Config{OnClose: told.add})
			a, b := net.Pipe()
			defer b.Close()
			inner := &readEnds{Conn: a, err: closed, read: make(chan struct{})}
			c := k.Conn(inner)
			go func() {
				_, err := c.Read(make([]byte, 1))
				require.ErrorIs(t, err, closed)
				close(inner.read)
			}()
			synctest.Wait()
			require.ErrorIs(t, c.Close(), closed, "the error of the connection inside")
			require.Equal(t, []closing{{c, ReasonLocal}}, told.list())
		})
	}
}

func TestAConnectionIsClosedAfterItsKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{})
		c, peer := pipe(k)
		require.NoError(t, k.Close())
		require.NoError(t, c.Close())
		_, err := peer.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}

// half is a connection with half-closes and without a socket.
type half struct{ net.Conn }

func (half) CloseRead() error  { return syscall.EINVAL }
func (half) CloseWrite() error { return syscall.EINVAL }

func TestErrorsOfTheConnectionInsideComeThrough(t *testing.T) {
	k := newKeeper(t, Config{})
	for _, inner := range []net.Conn{&net.TCPConn{}, half{&net.TCPConn{}}} { // without a socket each call fails
		c := k.Conn(inner)
		for name, call := range map[string]func() error{
			"Read":             func() error { return second(c.Read(nil)) },
			"Write":            func() error { return second(c.Write(nil)) },
			"SetDeadline":      func() error { return c.SetDeadline(time.Time{}) },
			"SetReadDeadline":  func() error { return c.SetReadDeadline(time.Time{}) },
			"SetWriteDeadline": func() error { return c.SetWriteDeadline(time.Time{}) },
			"CloseRead":        func() error { return c.(interface{ CloseRead() error }).CloseRead() },
			"CloseWrite":       func() error { return c.(interface{ CloseWrite() error }).CloseWrite() },
		} {
			require.ErrorIs(t, call(), syscall.EINVAL, "%T %s", inner, name)
		}
		if socket, ok := c.(syscall.Conn); ok {
			raw, err := socket.SyscallConn()
			require.ErrorIs(t, err, syscall.EINVAL)
			require.Nil(t, raw)
		}
		require.ErrorIs(t, c.Close(), syscall.EINVAL)
	}
}

func second[T any](_ T, err error) error { return err }

// With a Tick of the program's the hand wakes each tick, also while nothing is due and nobody reads.
func TestATickOfTheProgramIsKeptOnAnIdleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second, Tick: 10 * ms})
		for range 20 {
			c, peer := pipe(k)
			defer peer.Close()
			time.Sleep(77 * ms)
			begun := time.Now()
			require.True(t, Touch(c))
			_, err := c.Read(make([]byte, 1))
			requireIdleTimeout(t, err)
			require.GreaterOrEqual(t, time.Since(begun), time.Second)
			require.LessOrEqual(t, time.Since(begun), time.Second+20*ms)
		}
	})
}

// The hand sleeps up to 100ms, and each read looks at the clock.
func TestDeadlinesAreExactOnABusyServerWhileTheHandSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second})
		busy, other := pipe(k)
		go func() { _, _ = io.Copy(io.Discard, busy) }()
		go func() {
			for {
				if _, err := other.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(5 * ms)
			}
		}()
		for range 20 {
			c, peer := pipe(k)
			defer peer.Close()
			time.Sleep(77 * ms)
			begun := time.Now()
			go func() { _, _ = peer.Write([]byte("x")) }()
			_, err := io.Copy(io.Discard, c)
			requireIdleTimeout(t, err)
			require.GreaterOrEqual(t, time.Since(begun), time.Second)
			require.LessOrEqual(t, time.Since(begun), time.Second+20*ms)
		}
		other.Close()
		time.Sleep(time.Second)
	})
}

// Somebody else takes the room between the wait and the accepted connection.
func TestAnAcceptThatWaitsForRoomOnceMoreEndsWithItsListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Room: Room{MaxConns: 1, Full: FullWait}})
		inner := &pipeListener{conns: make(chan net.Conn)}
		ln := k.Listener(inner)
		ended := make(chan error, 1)
		go func() {
			_, err := ln.Accept()
			ended <- err
		}()
		synctest.Wait()
		_, other := pipe(k)
		defer other.Close()
		accepted, peer := net.Pipe()
		inner.conns <- accepted
		synctest.Wait()
		require.Empty(t, ended)
		require.NoError(t, ln.Close())
		require.ErrorIs(t, <-ended, net.ErrClosed)
		_, err := peer.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestAListenerOfTLSIsAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		k := newKeeper(t, Config{Logger: log.Logger(slog.LevelWarn)})
		inner := &pipeListener{conns: make(chan net.Conn, 3)}
		ln := k.Listener(inner)
		for i := range 3 {
			c, peer := net.Pipe()
			defer peer.Close()
			if i > 0 {
				c = tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12})
			}
			inner.conns <- c
			_, err := ln.Accept()
			require.NoError(t, err)
			require.Len(t, log.Lines("speaks TLS"), min(i, 1), "once")
		}
	})
}

// The looks for the shorter one must not take the longer one's silence for longer than the connection is old.
func TestReadIdleAndWriteIdleBeginWithTheConnection(t *testing.T) {
	for why, cfg := range map[Reason]Config{
		ReasonReadIdle:  {Timeout: time.Hour, ReadIdle: time.Minute, WriteIdle: 10 * time.Second},
		ReasonWriteIdle: {Timeout: time.Hour, ReadIdle: 10 * time.Second, WriteIdle: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, cfg)
			time.Sleep(10 * time.Minute) // the connection is younger than the Keeper
			c, peer := pipe(k)
			defer peer.Close()
			begun := time.Now()
			from, to := peer, c
			if why == ReasonReadIdle {
				from, to = c, peer
			}
			go func() { _, _ = io.Copy(io.Discard, to) }()
			for k.Len() > 0 {
				_, _ = from.Write([]byte("x"))
				time.Sleep(5 * time.Second)
			}
			require.GreaterOrEqual(t, time.Since(begun), time.Minute)
			synctest.Wait() // a connection is counted as closed just after it is out of Len
			require.EqualValues(t, 1, k.Stats().Closed[why])
		})
	}
}
