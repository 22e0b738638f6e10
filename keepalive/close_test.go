package keepalive

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
)

func farewell(_ any, reason Reason) []byte { return []byte("BYE " + reason.String() + "\n") }

func TestFarewellAndEndOfStream(t *testing.T) {
	t.Parallel()
	for _, mode := range []CloseMode{CloseGraceful, CloseHalf} {
		for _, network := range networksHere() {
			t.Run(mode.String()+"/"+network, func(t *testing.T) {
				t.Parallel()
				k := newNetKeeper(t, Config{Closing: Closing{Farewell: farewell, Mode: mode}})
				client, server := connect(t, network)
				begin := time.Now()
				conn := k.Conn(server)
				got, err := io.ReadAll(client)
				require.NoError(t, err)
				require.Equal(t, "BYE idle\n", string(got))
				require.GreaterOrEqual(t, time.Since(begin), timeout)
				require.NoError(t, client.Close())
				_, err = io.Copy(io.Discard, conn)
				require.ErrorIs(t, err, ErrIdleTimeout)
				require.Eventually(t, func() bool { return k.Stats().Closed[ReasonIdle] == 1 }, eternal, ms)
			})
		}
	}
}

// If the connection were closed at once, a sending peer would lose the farewell to a reset: the
// server doesn't read.
func TestCloseHalfLetsAPeerFinish(t *testing.T) {
	t.Parallel()
	k := newNetKeeper(t, Config{Activity: ActivityManual, Closing: Closing{Farewell: farewell, Mode: CloseHalf}})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	go func() { // read by nobody but bid, waiting for the end
		for {
			if _, err := client.Write(make([]byte, 1000)); err != nil {
				return
			}
			time.Sleep(5 * ms)
			if conn.(*tcpConn).guard.reason() != 0 {
				time.Sleep(beat)
				_ = client.(*net.TCPConn).CloseWrite()
				return
			}
		}
	}()
	time.Sleep(beat) // some bytes wait unread
	Of(conn).Close(ReasonIdle)
	got, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, "BYE idle\n", string(got))
}

// A peer doesn't close its side, or takes nothing: it holds up nobody for longer than
// Closing.Timeout.
func TestFarewellIsBounded(t *testing.T) {
	t.Parallel()
	for _, mode := range []CloseMode{CloseGraceful, CloseHalf} {
		for _, full := range []bool{false, true} {
			k := newNetKeeper(t, Config{
				Closing: Closing{Farewell: farewell, Timeout: timeout, Mode: mode},
			})
			client, server := connect(t, "tcp")
			rest := make([]byte, 1<<20) // of a large message
			for n := 1; full && n > 0; {
				require.NoError(t, server.SetWriteDeadline(time.Now().Add(beat)))
				n, _ = server.Write(rest)
			}
			require.NoError(t, server.SetWriteDeadline(time.Time{}))
			begin := time.Now()
			conn := k.Conn(server)
			if full {
				go func() { _, _ = conn.Write(rest) }()
			}
			require.Eventually(t, func() bool { return k.Stats().Closed[ReasonIdle] == 1 }, eternal, ms)
			require.GreaterOrEqual(t, time.Since(begin), timeout)
			if full || mode == CloseHalf {
				require.GreaterOrEqual(t, time.Since(begin), 2*timeout)
			}
			_, err := server.Write([]byte("x"))
			require.ErrorIs(t, err, net.ErrClosed)
			require.NoError(t, client.Close())
		}
	}
}

// The farewells of very many wait for nobody: one after the other would take hours.
func TestFarewellsDoNotHoldUpTheWorkers(t *testing.T) {
	t.Parallel()
	const n = 500
	k := newNetKeeper(t, Config{Closing: Closing{Farewell: farewell, Timeout: timeout}})
	for range n {
		k.Conn(stuck{})
	}
	begin := time.Now()
	require.Eventually(t, func() bool { return k.Stats().Closed[ReasonIdle] == n }, eternal, ms)
	require.Less(t, time.Since(begin), 20*timeout)
}

// stuck is a connection to a peer without room for a byte.
type stuck struct{ net.Conn }

func (stuck) Write([]byte) (int, error)   { time.Sleep(timeout); return 0, net.ErrClosed }
func (stuck) Close() error                { return nil }
func (stuck) SetDeadline(time.Time) error { return nil }

// The last words of TLS may have to wait for a peer without room for them.
func TestLastWordsBelowDoNotHoldUpTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: timeout})
		for range 64 {
			inner, _ := net.Pipe()
			k.Conn(wordy{inner})
		}
		conn, _ := pipe(k)
		last := time.Now()
		_, err := conn.Read(make([]byte, 1))
		requireIdleTimeout(t, err)
		require.Less(t, time.Since(last), 2*timeout)
		time.Sleep(time.Hour)
		require.EqualValues(t, 65, k.Stats().Closed[ReasonIdle])
	})
}

// wordy is like a connection of TLS with much to send.
type wordy struct{ net.Conn }

func (w wordy) NetConn() net.Conn { return w.Conn }
func (w wordy) Close() error      { time.Sleep(5 * time.Second); return w.Conn.Close() }

// A handler closes the connection after a failed Read, as every handler does. The last words
// must still leave.
func TestTheHandlersCloseLeavesTheFarewell(t *testing.T) {
	for _, mode := range []CloseMode{CloseGraceful, CloseHalf} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, Config{
					Timeout:  time.Second,
					Activity: ActivityManual,
					Closing:  Closing{Mode: mode, Farewell: func(any, Reason) []byte { return []byte("BYE") }},
				})
				conn, peer := pipe(k)
				closed := make(chan error, 1)
				go func() {
					_, err := io.Copy(io.Discard, struct{ io.Reader }{conn})
					_ = conn.Close()
					closed <- err
				}()
				go func() { // a trickle is no life
					for _, err := peer.Write([]byte("x")); err == nil; _, err = peer.Write([]byte("x")) {
						sleep(t.Context(), 10*ms)
					}
				}()
				require.ErrorIs(t, <-closed, ErrIdleTimeout)
				time.Sleep(100 * ms) // it takes a while until the peer reads
				said, err := io.ReadAll(peer)
				require.NoError(t, err)
				require.Equal(t, "BYE", string(said))
				require.NoError(t, peer.Close())
			})
		})
	}
}

func TestCloseForAReasonThatDoesNotExistIsLocal(t *testing.T) {
	for _, reason := range []Reason{0, endOfAll, 255} {
		synctest.Test(t, func(t *testing.T) {
			var c closings
			k := newKeeper(t, Config{OnClose: c.add})
			conn, _ := pipe(k)
			require.True(t, Of(conn).Close(reason))
			_, err := conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, ReasonLocal)
			synctest.Wait()
			require.Equal(t, []closing{{conn, ReasonLocal}}, c.list())
			require.EqualValues(t, 1, k.Stats().Closed[ReasonLocal])
		})
	}
}

func TestAConnectionReleasedByItsAdapterGivesItsShareBack(t *testing.T) {
	var c closings
	k := newKeeper(t, Config{OnClose: c.add, Room: Room{MaxPerKey: 1, Key: func(net.Addr) string { return "key" }}})
	g, err := guardOf(k, &net.UnixAddr{Name: "alice"})
	require.NoError(t, err)
	require.Equal(t, 1, k.shares.keys())
	require.True(t, g.Binding().Release())
	g.Binding().Closed(false)
	require.Len(t, c.list(), 1)
	require.Equal(t, ReasonLocal, c.list()[0].reason)
	require.Zero(t, k.shares.keys())
}

// Guard.Close is final, unlike an end by ReadIdle that waits for the rate: bytes do not save the connection.
func TestGuardCloseClosesForEachReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute})
		for _, reason := range Reasons() {
			conn, _ := pipe(k)
			require.True(t, Of(conn).Close(reason))
			time.Sleep(time.Second)
			require.EqualValues(t, 1, k.Stats().Closed[reason], reason)
			require.False(t, Of(conn).Close(reason))
		}
	})
}

// The context is done before the close. A program that closes the connection then, while the
// farewell is being made, does not cut the farewell off.
func TestACloseAfterTheContextLeavesTheFarewell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Closing: Closing{Farewell: func(any, Reason) []byte {
			time.Sleep(100 * ms)
			return []byte("bye")
		}}})
		conn, peer := pipe(k)
		context.AfterFunc(Of(conn).Context(), func() { require.NoError(t, conn.Close()) })
		require.True(t, Of(conn).Close(ReasonLocal))
		got, err := io.ReadAll(peer)
		require.NoError(t, err)
		require.Equal(t, "bye", string(got))
	})
}

func TestAFarewellGoesOnAfterTheEndOfTheKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Reason
		k := newKeeper(t, Config{
			Timeout: time.Second,
			Closing: Closing{Timeout: 10 * time.Second, Farewell: func(any, Reason) []byte { return []byte("bye") }},
			OnClose: func(_ any, reason Reason) { told = append(told, reason) },
		})
		_, peer := pipe(k)
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, k.Stats().Leaving)
		require.NoError(t, k.Close())
		require.Empty(t, told)
		bye, err := io.ReadAll(peer)
		require.NoError(t, err)
		require.Equal(t, "bye", string(bye))
		synctest.Wait()
		require.Equal(t, []Reason{ReasonIdle}, told)
		require.EqualValues(t, 1, k.Stats().Closed[ReasonIdle])
	})
}

// Closing.Timeout bounds the last words of TLS below the Keeper, too. TLS itself gives its peer five seconds.
func TestTheLastWordsOfALayerAreBounded(t *testing.T) {
	cert, _ := certtest.New(t)
	for _, mode := range []CloseMode{CloseGraceful, CloseHalf} {
		synctest.Test(t, func(t *testing.T) {
			var age time.Duration
			begin := time.Now()
			k := newKeeper(t, Config{
				Timeout: 10 * time.Second,
				Closing: Closing{Mode: mode, Timeout: 500 * ms},
				OnClose: func(any, Reason) { age = time.Since(begin) },
			})
			here, there := net.Pipe()
			defer there.Close()
			over := tls.Server(here, &tls.Config{Certificates: []tls.Certificate{cert}})
			go func() {
				_ = tls.Client(there, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).Handshake()
			}() // and reads nothing
			require.NoError(t, over.Handshake())
			k.Conn(over)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.GreaterOrEqual(t, age, 10*time.Second)
			require.LessOrEqual(t, age, 10*time.Second+500*ms+time.Second, "%v", mode)
		})
	}
}

// throttled is a layer whose Write waits until its own Close.
type throttled struct {
	net.Conn
	over chan struct{}
	end  func()
}

func (c *throttled) NetConn() net.Conn         { return c.Conn }
func (c *throttled) Write([]byte) (int, error) { <-c.over; return 0, net.ErrClosed }
func (c *throttled) Close() error              { c.end(); return c.Conn.Close() }

func TestALayerThatOnlyItsOwnCloseEndsIsClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var age time.Duration
		begin := time.Now()
		k := newKeeper(t, Config{
			Timeout: 10 * time.Second,
			Closing: Closing{Farewell: farewell, Timeout: 500 * ms},
			OnClose: func(any, Reason) { age = time.Since(begin) },
		})
		inner, peer := net.Pipe()
		defer peer.Close()
		over := make(chan struct{})
		k.Conn(&throttled{inner, over, sync.OnceFunc(func() { close(over) })})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.GreaterOrEqual(t, age, 10*time.Second)
		require.LessOrEqual(t, age, 10*time.Second+500*ms+time.Second)
	})
}

// stream is one of several on the same connection.
type stream struct {
	net.Conn
	carrier net.Conn
}

func (s *stream) NetConn() net.Conn { return s.carrier }

func TestTheConnectionOfOtherStreamsStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Closing: Closing{Farewell: farewell, Timeout: 500 * ms}})
		carrier, far := net.Pipe()
		defer carrier.Close()
		own, peer := net.Pipe() // nobody reads the farewell
		defer peer.Close()
		k.Conn(&stream{own, carrier})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, k.Stats().Closed[ReasonIdle])
		go func() { _, _ = carrier.Write([]byte("x")) }()
		_, err := far.Read(make([]byte, 1))
		require.NoError(t, err)
	})
}
