package wskeepalive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const accepted = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"

// bubble runs a test with a Keeper in fake time.
func bubble(t *testing.T, test func(t *testing.T, k *keepalive.Keeper)) {
	synctest.Test(t, func(t *testing.T) {
		k, err := keepalive.New(keepalive.Config{Timeout: time.Minute, Closing: keepalive.Closing{Timeout: 5 * time.Second}})
		require.NoError(t, err)
		test(t, k)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = k.Drain(ctx, 0)
		require.NoError(t, k.Close())
		synctest.Wait()
	})
}

// pair returns a guarded connection of one side, and the other end.
func pair(t *testing.T, k *keepalive.Keeper, side func(net.Conn) (net.Conn, error)) (c, peer net.Conn) {
	a, peer := net.Pipe()
	c, err := side(k.Conn(a))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(); _ = peer.Close() })
	return c, peer
}

// opened is pair after the handshake.
func opened(t *testing.T, k *keepalive.Keeper, client bool) (c, peer net.Conn) {
	side, first, second := Server, "", accepted
	if client {
		side, first, second = Client, "GET / HTTP/1.1\r\n\r\n", accepted
	}
	c, peer = pair(t, k, side)
	if client {
		go func() { _, _ = io.WriteString(c, first) }()
		requireBytes(t, peer, first)
		go func() { _, _ = io.WriteString(peer, second) }()
		requireBytes(t, c, second)
	} else {
		go func() { _, _ = io.WriteString(c, second) }()
		requireBytes(t, peer, second)
	}
	synctest.Wait()
	return c, peer
}

// requireBytes requires the next bytes of a connection.
func requireBytes(t *testing.T, r io.Reader, want string) {
	got := make([]byte, len(want))
	_, err := io.ReadFull(r, got)
	require.NoError(t, err, "%q", got)
	require.Equal(t, want, string(got))
}

// drained reads in the background, as a program must.
func drained(r io.Reader) (over chan error) {
	over = make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r)
		over <- err
	}()
	return over
}

func TestASilentPeerIsPingedAndToldOfItsEnd(t *testing.T) {
	for _, client := range []bool{false, true} {
		bubble(t, func(t *testing.T, k *keepalive.Keeper) {
			c, peer := opened(t, k, client)
			read := drained(c)
			begin := time.Now()
			in := bufio.NewReader(peer)
			ping, goodbye := readFrame(t, in), ""
			require.Equal(t, "\x89", ping)
			require.LessOrEqual(t, time.Since(begin), 32*time.Second)
			goodbye = readFrame(t, in)
			require.Equal(t, "\x88\x03\xe9no_answer", goodbye)
			require.GreaterOrEqual(t, time.Since(begin), time.Minute)
			require.ErrorIs(t, <-read, keepalive.ReasonNoAnswer)
			_, err := c.Write([]byte("\x82\x00"))
			require.ErrorIs(t, err, keepalive.ReasonNoAnswer)
		})
	}
}

// readFrame reads a control frame: its first byte, and its payload without the mask.
func readFrame(t *testing.T, in *bufio.Reader) string {
	h := make([]byte, 2)
	_, err := io.ReadFull(in, h)
	require.NoError(t, err)
	mask := make([]byte, 4)
	if h[1]&bitMask != 0 {
		_, err := io.ReadFull(in, mask)
		require.NoError(t, err)
	}
	payload := make([]byte, h[1]&^bitMask)
	_, err = io.ReadFull(in, payload)
	require.NoError(t, err)
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return string(h[:1]) + string(payload)
}

// A pong, a ping and a whole message are life, and parts of a message are none.
func TestWhatIsLife(t *testing.T) {
	for frame, life := range map[string]bool{
		"\x8a\x00":           true,
		"\x8a\x84abcd1234":   true,
		"\x89\x00":           true,
		"\x82\x03abc":        true,
		"\x80\x00":           true, // the end of a message in fragments
		"\x02\x03abc":        false,
		"\x00\x03abc":        false,
		"\x82\x7e\x01\x00ab": false,
		"\x8a":               false,
		"\x88\x00":           false,
	} {
		bubble(t, func(t *testing.T, k *keepalive.Keeper) {
			c, peer := opened(t, k, false)
			drained(c)
			drained(peer)
			time.Sleep(50 * time.Second)
			_, err := io.WriteString(peer, frame)
			require.NoError(t, err)
			time.Sleep(30 * time.Second)
			_, open := keepalive.Of(c).Info()
			require.Equal(t, life, open, "%q", frame)
		})
	}
}

func TestAPongHasARoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, k *keepalive.Keeper) {
		c, peer := opened(t, k, false)
		drained(c)
		in := bufio.NewReader(peer)
		for range 20 { // it never speaks
			require.Equal(t, "\x89", readFrame(t, in))
			time.Sleep(3 * time.Second)
			_, err := io.WriteString(peer, "\x8a\x80mask")
			require.NoError(t, err)
		}
		synctest.Wait()
		info, ok := keepalive.Of(c).Info()
		require.True(t, ok)
		require.Equal(t, 3*time.Second, info.RoundTrip)
	})
}

// A program may write a frame in pieces, and several of them at once. Pings come between frames.
func TestAPingWaitsForTheEndOfAFrame(t *testing.T) {
	bubble(t, func(t *testing.T, k *keepalive.Keeper) {
		c, peer := opened(t, k, false)
		drained(c)
		write := func(s string) { go func() { _, _ = io.WriteString(c, s) }() }
		write("\x82\x06ab")
		requireBytes(t, peer, "\x82\x06ab")
		time.Sleep(35 * time.Second) // a ping is due
		write("cd")
		requireBytes(t, peer, "cd")
		write("ef\x82\x01g\x82\x02h")
		requireBytes(t, peer, "ef\x89\x00\x82\x01g\x82\x02h")
		write("i")
		requireBytes(t, peer, "i")
		require.True(t, keepalive.Of(c).Close(keepalive.ReasonTooSlow))
		requireBytes(t, peer, "\x88\x0a\x03\xf0too_slow")
	})
}

// So does the close frame, as long as it may.
func TestTheCloseFrameWaitsForTheEndOfAFrame(t *testing.T) {
	bubble(t, func(t *testing.T, k *keepalive.Keeper) {
		c, peer := opened(t, k, false)
		read := drained(c)
		go func() { _, _ = io.WriteString(c, "\x02\x03a") }()
		requireBytes(t, peer, "\x02\x03a")
		require.True(t, keepalive.Of(c).Close(keepalive.ReasonLocal))
		time.Sleep(3 * time.Second)
		require.Empty(t, read, "the program may still write")
		wrote := make(chan error, 1)
		go func() {
			n, err := io.WriteString(c, "bc\x80\x01d")
			if n != 2 {
				err = errors.Join(err, errors.New("not what was written"))
			}
			wrote <- err
		}()
		requireBytes(t, peer, "bc\x88\x07\x03\xe8local")
		require.ErrorIs(t, <-wrote, keepalive.ReasonLocal)

		c, peer = opened(t, k, false)
		read = drained(c)
		go func() { _, _ = io.WriteString(c, "\x82\x03a") }()
		requireBytes(t, peer, "\x82\x03a")
		begin := time.Now()
		require.True(t, keepalive.Of(c).Close(keepalive.ReasonLocal))
		require.ErrorIs(t, <-read, keepalive.ReasonLocal)
		require.Equal(t, 5*time.Second, time.Since(begin).Truncate(time.Second))
		_, err := peer.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}

// Neither side sends a frame before the server has accepted the handshake.
func TestNoFrameComesBeforeTheHandshake(t *testing.T) {
	for _, client := range []bool{false, true} {
		for _, why := range []keepalive.Reason{keepalive.ReasonNoAnswer, keepalive.ReasonDrain} {
			bubble(t, func(t *testing.T, k *keepalive.Keeper) {
				side := Server
				if client {
					side = Client
				}
				c, peer := pair(t, k, side)
				if client {
					go func() { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n") }()
					requireBytes(t, peer, "GET / HTTP/1.1\r\n\r\n")
					go func() { _, _ = io.WriteString(peer, "HTTP/1.1 401 Unauthorized\r\n\r\n") }()
				} else {
					go func() { _, _ = io.WriteString(peer, "GET / HTTP/1.1\r\n\r\n") }()
				}
				read := drained(c)
				synctest.Wait()
				begin := time.Now()
				if why == keepalive.ReasonDrain {
					keepalive.Of(c).Close(why)
				}
				rest, err := io.ReadAll(peer)
				require.NoError(t, err)
				require.Empty(t, rest)
				require.ErrorIs(t, <-read, why)
				if client && why == keepalive.ReasonDrain {
					require.Less(t, time.Since(begin), time.Second, "there is no goodbye to wait for")
				}
			})
		}
	}
}

// A server that takes its time for the handshake pings behind it.
func TestAPingWaitsForTheEndOfTheHandshake(t *testing.T) {
	bubble(t, func(t *testing.T, k *keepalive.Keeper) {
		c, peer := pair(t, k, Server)
		drained(c)
		time.Sleep(50 * time.Second)
		go func() { _, _ = io.WriteString(c, accepted) }()
		requireBytes(t, peer, accepted+"\x89\x00")

		c, peer = pair(t, k, Client)
		drained(c)
		go func() { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n") }()
		requireBytes(t, peer, "GET / HTTP/1.1\r\n\r\n")
		time.Sleep(50 * time.Second)
		_, err := io.WriteString(peer, accepted)
		require.NoError(t, err)
		begin := time.Now()
		require.Equal(t, "\x89", readFrame(t, bufio.NewReader(peer)))
		require.Greater(t, time.Since(begin), 20*time.Second, "the end of the handshake is life")
	})
}

// After the program's own close frame nothing more is sent.
func TestTheProgramsCloseFrameIsTheLast(t *testing.T) {
	bubble(t, func(t *testing.T, k *keepalive.Keeper) {
		c, peer := opened(t, k, false)
		drained(c)
		go func() { _, _ = io.WriteString(c, "\x88\x02\x03\xe8") }()
		requireBytes(t, peer, "\x88\x02\x03\xe8")
		rest, err := io.ReadAll(peer)
		require.NoError(t, err)
		require.Empty(t, rest)
	})
}

// A program's deadline for a write of its own is over when a ping is due, and is in force again later.
func TestAPingIsNotTheProgramsWrite(t *testing.T) {
	for name, set := range map[string]func(net.Conn, time.Time) error{
		"SetWriteDeadline": net.Conn.SetWriteDeadline,
		"SetDeadline":      net.Conn.SetDeadline,
	} {
		bubble(t, func(t *testing.T, k *keepalive.Keeper) {
			c, peer := opened(t, k, false)
			require.NoError(t, set(c, time.Now().Add(time.Second)), name)
			requireBytes(t, peer, "\x89\x00")
			synctest.Wait()
			_, err := c.Write([]byte("\x82\x00"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		})
	}
}

// A Write may wait for a ping that a stuck peer does not take, but not beyond its own deadline. The rest of that ping
// comes first, later.
func TestAStuckPingDoesNotHoldUpAWriteBeyondItsDeadline(t *testing.T) {
	for _, before := range []bool{false, true} { // the deadline is set before the ping, or during it
		bubble(t, func(t *testing.T, k *keepalive.Keeper) {
			c, peer := opened(t, k, false)
			drained(c)
			deadline := time.Now().Add(45 * time.Second)
			if before {
				require.NoError(t, c.SetWriteDeadline(deadline))
			}
			requireBytes(t, peer, "\x89") // and no more
			if !before {
				require.NoError(t, c.SetWriteDeadline(deadline))
			}
			_, err := c.Write([]byte("\x82\x00"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.WithinDuration(t, deadline, time.Now(), 0)
			require.NoError(t, c.SetWriteDeadline(time.Time{}))
			go func() { _, _ = c.Write([]byte("\x82\x01a")) }()
			requireBytes(t, peer, "\x00\x82\x01a")
		})
	}
}

// Several writers have a lock for their frames, and pings come all the time.
func TestFramesStayWholeBesideSeveralWriters(t *testing.T) {
	k, err := keepalive.New(keepalive.Config{
		Timeout: time.Hour, Tick: 2 * time.Millisecond,
		Probe: keepalive.Probing{After: 10 * time.Millisecond},
	})
	require.NoError(t, err)
	defer k.Close()
	a, peer := net.Pipe()
	defer peer.Close()
	c, err := Server(k.Conn(a))
	require.NoError(t, err)
	enough := make(chan struct{})
	var lock sync.Mutex
	write := func() {
		for {
			lock.Lock()
			_, _ = io.WriteString(c, "\x82\x05")
			for range 5 {
				_, _ = io.WriteString(c, "\x00")
			}
			lock.Unlock()
			select {
			case <-enough:
				return
			case <-time.After(100 * time.Microsecond): // the Keeper has the processor, too
			}
		}
	}
	go func() {
		defer c.Close()
		_, _ = io.WriteString(c, accepted)
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(write)
		}
		writers.Wait()
	}()
	drained(c)
	requireBytes(t, peer, accepted)
	pings, f := 0, new(frames)
	for p := make([]byte, 512); err == nil; {
		var n int
		n, err = peer.Read(p)
		for rest := p[:n]; len(rest) > 0; {
			k, ended := f.take(rest)
			if rest = rest[k:]; !ended || f.first == 0x82 {
				continue
			}
			require.Equal(t, byte(0x89), f.first)
			if pings++; pings == 5 {
				close(enough)
			}
			go func() { _, _ = io.WriteString(peer, "\x8a\x80mask") }()
		}
	}
	require.True(t, f.between())
}

func TestTheProgramClosesWhileAPingIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, k *keepalive.Keeper) {
		c, peer := opened(t, k, false)
		read := drained(c)
		requireBytes(t, peer, "\x89")
		require.NoError(t, c.Close())
		require.Error(t, <-read)
		synctest.Wait()
		require.Zero(t, k.Len())
		require.Equal(t, uint64(1), k.Stats().Closed[keepalive.ReasonLocal])
		require.NoError(t, c.Close())
	})
}

func TestOnlyGuardedConnectionsAreTaken(t *testing.T) {
	bubble(t, func(t *testing.T, k *keepalive.Keeper) {
		a, _ := net.Pipe()
		guarded := k.Conn(a)
		once, err := Server(guarded)
		require.NoError(t, err)
		twice, err := Server(once)
		require.NoError(t, err)
		require.Same(t, once, twice)
		require.Same(t, keepalive.Of(guarded), keepalive.Of(once))
		require.Equal(t, guarded, once.(interface{ NetConn() net.Conn }).NetConn())
		require.NoError(t, guarded.Close())
		bare, _ := net.Pipe()
		for _, side := range []func(net.Conn) (net.Conn, error){Server, Client} {
			for _, c := range []net.Conn{nil, bare, guarded, (*net.TCPConn)(nil)} {
				got, err := side(c)
				require.ErrorIs(t, err, keepalive.ErrNotGuarded)
				require.Nil(t, got)
				if c != guarded {
					require.ErrorContains(t, err, fmt.Sprintf("%T", c))
				}
			}
		}
		for _, g := range []*keepalive.Guard{nil, new(keepalive.Guard), keepalive.Of(guarded)} {
			_, _, err = Hijacker(g, httptest.NewRecorder()).(http.Hijacker).Hijack()
			require.ErrorIs(t, err, keepalive.ErrNotGuarded)
		}
	})
}

// handed is a ResponseWriter of a server whose client has sent a frame early.
type handed struct {
	*httptest.ResponseRecorder
	conn  net.Conn
	early string
}

func (h handed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	in := bufio.NewReader(io.MultiReader(strings.NewReader(h.early), h.conn))
	_, _ = in.Peek(len(h.early))
	return h.conn, bufio.NewReadWriter(in, bufio.NewWriter(h.conn)), nil
}

// A library reads from the reader of the hijack, and writes to its writer, or to the connection.
func TestHijack(t *testing.T) {
	bubble(t, func(t *testing.T, k *keepalive.Keeper) {
		a, peer := net.Pipe()
		inner := k.Conn(a)
		w := Hijacker(keepalive.Of(inner), handed{httptest.NewRecorder(), inner, "\x82\x04ab"})
		require.IsType(t, handed{}, w.(interface{ Unwrap() http.ResponseWriter }).Unwrap())
		c, rw, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		require.Equal(t, 4, rw.Reader.Buffered())
		go func() { _, _ = rw.WriteString(accepted); _ = rw.Flush() }()
		requireBytes(t, peer, accepted)
		time.Sleep(20 * time.Second)
		go func() { _, _ = io.WriteString(peer, "cd") }()
		requireBytes(t, rw, "\x82\x04abcd")
		drained(c)
		requireBytes(t, peer, "\x89\x00")
		time.Sleep(15 * time.Second) // alive by the message
		_, ok := keepalive.Of(c).Info()
		require.True(t, ok)
	})
}

// Some libraries write the response before they hijack.
func TestHijackBehindTheResponse(t *testing.T) {
	bubble(t, func(t *testing.T, k *keepalive.Keeper) {
		a, peer := net.Pipe()
		inner := k.Conn(a)
		w := Hijacker(keepalive.Of(inner), handed{httptest.NewRecorder(), inner, ""})
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, _, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		drained(c)
		requireBytes(t, peer, "\x89\x00")
	})
}

func TestCloseFrame(t *testing.T) {
	require.Equal(t, "\x88\x07\x03\xe9drain", string(CloseFrame(keepalive.ReasonDrain)))
	require.Equal(t, "\x88\x0a\x03\xf0too_many", string(CloseFrame(keepalive.ReasonTooMany)))
}
