package keepalive

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection without a socket tells nothing of its peer, so each Write has its time.
func TestAWriteThatWaitsIsEndedOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 2 * time.Second
		var c closings
		k := newKeeper(t, Config{Timeout: time.Hour, WriteStall: stall, OnClose: c.add})
		conn, _ := pipe(k)
		defer Of(conn).Hold()()
		time.Sleep(3 * time.Second)
		start := time.Now()
		_, err := conn.Write([]byte("x"))
		after := time.Since(start)
		require.ErrorIs(t, err, ReasonWriteStall)
		require.ErrorContains(t, err, "the peer takes no bytes")
		require.GreaterOrEqual(t, after, stall)
		require.Less(t, after, 2*stall, "since the Keeper saw it")
		synctest.Wait()
		require.Equal(t, []closing{{conn, ReasonWriteStall}}, c.list())
		require.EqualValues(t, 1, k.Stats().Closed[ReasonWriteStall])
	})
}

// Many Writes in a row, each of which takes its time, are no stall, and neither is a connection with nothing to write.
func TestWritesThatEndAreNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 2 * time.Second
		k := newKeeper(t, Config{Timeout: time.Hour, WriteStall: stall})
		quiet, _ := pipe(k)
		conn, peer := pipe(k)
		go func() {
			for range 6 {
				time.Sleep(stall / 2)
				_, _ = io.ReadFull(peer, make([]byte, 100))
			}
		}()
		for range 6 {
			_, err := conn.Write(make([]byte, 100))
			require.NoError(t, err)
		}
		require.Equal(t, 2, k.Len())
		require.True(t, Touch(quiet))
		_, err := conn.Write([]byte("x"))
		require.ErrorIs(t, err, ReasonWriteStall)
	})
}

// net.Buffers are one Write, and so is each piece of a transfer without a socket.
func TestEveryWayToWriteMayStall(t *testing.T) {
	for name, write := range map[string]func(c net.Conn) error{
		"Write":   func(c net.Conn) error { _, err := c.Write([]byte("x")); return err },
		"Buffers": func(c net.Conn) error { _, err := c.(io.ReaderFrom).ReadFrom(&net.Buffers{{1}, {2}}); return err },
		"ReadFrom": func(c net.Conn) error {
			_, err := c.(io.ReaderFrom).ReadFrom(struct{ io.Reader }{bytes.NewReader(make([]byte, 1<<20))})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, Config{Timeout: time.Hour, WriteStall: time.Second})
				conn, _ := pipe(k)
				require.ErrorIs(t, write(conn), ReasonWriteStall)
				require.Zero(t, writing(conn))
			})
		})
	}
}

// What one Write has begun with, and not ended, counts whole.
func TestTooManyUnsentBytesEndAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, MaxUnsent: 3 << 10})
		start := time.Now()
		allowed, _ := pipe(k)
		go func() { _, _ = allowed.Write(make([]byte, 3<<10)) }()
		conn, _ := pipe(k)
		_, err := conn.Write(make([]byte, 3<<10+1))
		require.ErrorIs(t, err, ReasonMaxUnsent)
		require.LessOrEqual(t, time.Since(start), 10*time.Second+2*k.sleep)
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, k.Len())
		require.NoError(t, allowed.Close())

		busy, peer := pipe(k)
		go func() { _, _ = peer.Read(make([]byte, 1)) }()
		_, err = busy.Write([]byte("x"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		start = time.Now()
		_, err = busy.Write(make([]byte, 1<<20))
		require.ErrorIs(t, err, ReasonMaxUnsent)
		require.LessOrEqual(t, time.Since(start), 10*time.Second+2*k.sleep)
		synctest.Wait() // the program hears of a close before it is counted
		require.EqualValues(t, 2, k.Stats().Closed[ReasonMaxUnsent])
	})
}

func TestAStallWithADryRunAndThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, WriteStall: time.Second, Closing: Closing{DryRun: true, MaxPerSecond: 1}})
		const conns = 5
		ended := make(chan time.Time, conns)
		for range conns {
			conn, _ := pipe(k)
			go func() {
				_, _ = conn.Write([]byte("x"))
				ended <- time.Now()
			}()
		}
		time.Sleep(4 * time.Second)
		require.EqualValues(t, conns, k.Stats().WouldClose[ReasonWriteStall], "once each")
		require.Equal(t, conns, k.Len())
		cfg := k.Config()
		cfg.Closing.DryRun = false
		require.NoError(t, k.Update(cfg))
		first := <-ended
		for range conns - 1 {
			<-ended
		}
		require.GreaterOrEqual(t, time.Since(first), (conns-2)*time.Second)
	})
}

func TestAStallMayBeginWithAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second})
		conn, _ := pipe(k)
		defer Of(conn).Hold()()
		ended := make(chan error)
		go func() { _, err := conn.Write([]byte("x")); ended <- err }()
		time.Sleep(3 * time.Second)
		cfg := k.Config()
		cfg.WriteStall = time.Second
		require.NoError(t, k.Update(cfg))
		require.ErrorIs(t, <-ended, ReasonWriteStall)
	})
}

func TestWriteStallAndMaxUnsentMustNotBeNegative(t *testing.T) {
	require.ErrorContains(t, Config{WriteStall: -1}.Validate(), "WriteStall -1ns, must not be negative")
	require.ErrorContains(t, Config{MaxUnsent: -1}.Validate(), "MaxUnsent -1, must not be negative")
	require.ErrorIs(t, Config{MaxUnsent: -1}.Validate(), ErrArgument)
}

func writing(c net.Conn) int32 { return c.(interface{ self() *conn }).self().writing.Load() }
