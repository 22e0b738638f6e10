package keepalive

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// In these tests the peer writes to a net.Pipe. Nothing but a Read of this program ends its Write.

const pipeTimeout = 10 * time.Second

// background runs f on a goroutine, and wait returns its result.
func background[T any](f func() T) (wait func() T) {
	done := make(chan T, 1)
	go func() { done <- f() }()
	return func() T { return <-done }
}

// All that the peer has written arrives, however long the program was busy. Then the peer is silent.
func TestAWriteThatWaitsInAPipeIsNoSilence(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789"), 1000)
	for name, test := range map[string]struct {
		cfg      Config
		wrap     func(net.Conn) net.Conn
		before   int  // bytes read before the program is busy
		deadline bool // for them
	}{
		"the first message":         {},
		"an upload":                 {before: 4096},
		"with a FirstMessage":       {cfg: Config{FirstMessage: pipeTimeout / 2}},
		"with a ReadIdle":           {cfg: Config{ReadIdle: pipeTimeout / 2}, before: 1},
		"below a layer":             {wrap: func(c net.Conn) net.Conn { return &headed{Conn: c} }},
		"below one that hides it":   {wrap: func(c net.Conn) net.Conn { return hiding{c} }, cfg: Config{Unwrap: unhide}},
		"with looks at each eighth": {cfg: Config{Advise: true}, before: 1},
		"with probes":               {cfg: Config{Probe: Probing{Send: func(any) error { return nil }}}, before: 1},
		"after a read deadline":     {deadline: true, before: 1},
	} {
		for _, activity := range []Activity{ActivityRead, ActivityReadWrite, ActivityManual} {
			if activity == ActivityReadWrite && test.cfg.Probe.Send != nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/activity=%v", name, activity), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := test.cfg
					cfg.Timeout, cfg.Tick, cfg.Activity = pipeTimeout, 10*ms, activity
					k := newKeeper(t, cfg)
					inner, peer := net.Pipe()
					defer peer.Close()
					if test.wrap != nil {
						inner = test.wrap(inner)
					}
					conn := k.Conn(inner)
					written := background(func() error { _, err := peer.Write(sent); return err })
					got := make([]byte, len(sent))
					_, err := io.ReadFull(conn, got[:test.before])
					require.NoError(t, err)
					Touch(conn)
					if test.deadline {
						require.NoError(t, conn.SetReadDeadline(time.Now()))
					}
					time.Sleep(10*pipeTimeout + pipeTimeout/4) // no instant of a decision
					require.Equal(t, 1, k.Len())
					require.Positive(t, k.Stats().Slow)
					require.NoError(t, conn.SetReadDeadline(time.Time{}))
					_, err = io.ReadFull(conn, got[test.before:])
					require.NoError(t, err)
					require.True(t, Touch(conn))
					require.Equal(t, sent, got, "the look has taken nothing")
					require.NoError(t, written())
					silent := time.Now()
					_, err = conn.Read(make([]byte, 1))
					require.ErrorIs(t, err, os.ErrDeadlineExceeded)
					if cfg.ReadIdle == 0 {
						requireSoon(t, pipeTimeout, time.Since(silent))
					}
				})
			})
		}
	}
}

// requireSoon requires a time of two ticks of 10ms at most after want, and never before.
func requireSoon(t *testing.T, want, got time.Duration) {
	require.GreaterOrEqual(t, got, want)
	require.LessOrEqual(t, got, want+21*ms)
}

// The program is busy all the time.
func TestThePeerOfABusyProgramGivesItsWriteUp(t *testing.T) {
	for name, gaveUp := range map[string]func(peer net.Conn){
		"by a deadline": func(peer net.Conn) { _ = peer.SetWriteDeadline(time.Now()) },
		"by a close":    func(peer net.Conn) { _ = peer.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ends closings
				k := newKeeper(t, Config{Timeout: pipeTimeout, Tick: 10 * ms, OnClose: ends.add})
				_, peer := pipe(k)
				defer peer.Close()
				written := background(func() error { _, err := peer.Write([]byte("x")); return err })
				time.Sleep(10 * pipeTimeout)
				require.Equal(t, 1, k.Len())
				gaveUp(peer)
				require.Error(t, written())
				time.Sleep(2*pipeTimeout + 31*ms)
				require.Equal(t, ReasonIdle, ends.list()[0].reason)
			})
		})
	}
}

// TLS writes and reads in records.
func TestAWriteThatWaitsInAPipeBelowTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: pipeTimeout, Tick: 10 * ms})
		inner, peer := pipe(k)
		defer peer.Close()
		conn := tls.Client(inner, &tls.Config{InsecureSkipVerify: true})
		defer inner.Close()
		handshaken := background(conn.Handshake)
		hello := make([]byte, 5) // a busy server has read the header of the record
		_, err := io.ReadFull(peer, hello)
		require.NoError(t, err)
		time.Sleep(pipeTimeout + 31*ms)
		require.Error(t, handshaken(), "the program waits for its peer, not the peer for the program")
	})
}
