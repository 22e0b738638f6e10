package keepalive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// If the sink is slower than the source, a transfer always has unread bytes. It lives while
// they move, and when the sink hangs.
func TestTransferIntoASlowSink(t *testing.T) {
	t.Parallel()
	eachActivity(t, readingActivities(), testSlowSink)
}

func testSlowSink(t *testing.T, activity Activity) {
	for name, start := range map[string]func(dst, src net.Conn) (int64, error){
		"splice":  func(dst, src net.Conn) (int64, error) { return io.Copy(dst, src) },
		"limited": func(dst, src net.Conn) (int64, error) { return io.CopyN(dst, src, 1<<40) },
		"WriteTo": func(dst, src net.Conn) (int64, error) { return io.Copy(struct{ io.Writer }{dst}, src) },
		"Read": func(dst, src net.Conn) (int64, error) {
			return io.Copy(struct{ io.Writer }{dst}, struct{ io.Reader }{src})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newNetKeeper(t, Config{Activity: activity})
			source, in := connect(t, "tcp")
			out, sink := connect(t, "tcp")
			// The kernel gives a large buffer room again only in large pieces, so a slow sink would
			// look like one that hangs.
			require.NoError(t, out.(*net.TCPConn).SetWriteBuffer(64<<10))
			require.NoError(t, sink.(*net.TCPConn).SetReadBuffer(64<<10))
			require.NoError(t, in.(*net.TCPConn).SetReadBuffer(64<<10))
			src := k.Conn(in)
			go func() {
				for {
					if _, err := source.Write(make([]byte, 64<<10)); err != nil {
						return
					}
				}
			}()
			done := make(chan error, 1)
			go func() {
				_, err := start(out, src)
				done <- err
			}()
			buf := make([]byte, 64<<10)
			for begin := time.Now(); time.Since(begin) < 6*timeout; time.Sleep(beat / 2) {
				_, err := sink.Read(buf)
				require.NoError(t, err)
				select {
				case err := <-done:
					t.Fatalf("ended after %v: %v", time.Since(begin), err)
				default:
				}
			}
			// Now nobody reads any more, and the transfer stands still. The source has filled its queue, and
			// is not to blame.
			time.Sleep(2 * timeout)
			require.Equal(t, 1, k.Len())
			sink.Close()
			require.Error(t, <-done)
		})
	}
}

// socketless is a connection with ReadFrom and WriteTo and no socket.
type socketless struct {
	net.Conn
	_ struct{}
}

func (c socketless) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

func (c socketless) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{c.Conn})
}

func (c socketless) NetConn() {} // not the NetConn of a layer: nobody looks inside

// beats gives a byte now and then.
type beats struct{ left int }

func (b *beats) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	b.left--
	time.Sleep(beat)
	return copy(p, "x"), nil
}

func TestTransfersOfConnectionsWithoutASocket(t *testing.T) {
	t.Parallel()
	for _, activity := range readingActivities() {
		for _, into := range []bool{true, false} {
			t.Run(fmt.Sprintf("activity=%v/into=%v", activity, into), func(t *testing.T) {
				t.Parallel()
				testSocketless(t, activity, into)
			})
		}
	}
}

func testSocketless(t *testing.T, activity Activity, into bool) {
	k := newNetKeeper(t, Config{Activity: activity})
	a, b := connect(t, "tcp")
	conn := k.Conn(socketless{Conn: b})
	go trickle(a, 24)
	done := make(chan error, 1)
	go func() { // three timeouts
		if into {
			go io.Copy(io.Discard, a)
			_, err := io.Copy(conn, &beats{24})
			done <- err
			return
		}
		_, err := io.Copy(&closeAfter{conn, 24}, conn)
		done <- err
	}()
	err := <-done
	if into {
		require.NoError(t, err)
	} else {
		require.ErrorIs(t, err, errEnough)
	}
}

// closeAfter is a writer with an error after some bytes.
type closeAfter struct {
	conn net.Conn
	left int
}

var errEnough = errors.New("enough")

func (c *closeAfter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left <= 0 {
		return 0, errEnough
	}
	return len(p), nil
}

func TestLimitedReaderKnowsWhatIsLeft(t *testing.T) {
	k := newNetKeeper(t, Config{})
	client, in := connect(t, "tcp")
	out, _ := connect(t, "tcp")
	_, err := client.Write([]byte("0123456789"))
	require.NoError(t, err)
	limited := &io.LimitedReader{R: k.Conn(in), N: 7}
	n, err := io.Copy(k.Conn(out), limited)
	require.NoError(t, err)
	require.EqualValues(t, 7, n)
	require.Zero(t, limited.N)
}

func TestReasonsAfterTransfers(t *testing.T) {
	disk := errors.New("disk")
	for name, c := range map[string]struct {
		want Reason
		do   func(t *testing.T, conn net.Conn, peer *net.TCPConn)
	}{
		"the peer ends": {ReasonPeer, func(t *testing.T, conn net.Conn, peer *net.TCPConn) {
			peer.Close()
			_, err := io.Copy(io.Discard, conn)
			require.NoError(t, err)
		}},
		"the peer resets while we write": {ReasonPeer, func(t *testing.T, conn net.Conn, peer *net.TCPConn) {
			require.NoError(t, peer.SetLinger(0))
			peer.Close()
			_, err := io.Copy(conn, zeros{})
			require.Error(t, err)
		}},
		"what we write can't be read": {ReasonLocal, func(t *testing.T, conn net.Conn, _ *net.TCPConn) {
			_, err := io.Copy(conn, io.MultiReader(io.LimitReader(zeros{}, 10), failing{disk}))
			require.ErrorIs(t, err, disk)
		}},
		"what is read can't be written": {ReasonLocal, func(t *testing.T, conn net.Conn, peer *net.TCPConn) {
			_, err := peer.Write([]byte("x"))
			require.NoError(t, err)
			_, err = io.Copy(&closeAfter{}, conn)
			require.ErrorIs(t, err, errEnough)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got atomic.Value
			k := newNetKeeper(t, Config{OnClose: func(_ any, r Reason) { got.Store(r) }})
			peer, b := connect(t, "tcp")
			conn := k.Conn(b)
			c.do(t, conn, peer.(*net.TCPConn))
			require.NoError(t, conn.Close())
			require.Equal(t, c.want, got.Load())
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// What comes after the end is not for the program, whichever way it reads.
func TestNothingIsTransferredAfterTheEnd(t *testing.T) {
	for name, transfer := range map[string]func(to *bytes.Buffer, conn net.Conn, k *Keeper) (int64, error){
		"WriteTo": func(to *bytes.Buffer, conn net.Conn, _ *Keeper) (int64, error) { return io.Copy(to, conn) },
		"into another connection": func(_ *bytes.Buffer, conn net.Conn, k *Keeper) (int64, error) {
			_, into := connect(t, "tcp")
			return k.Conn(into).(io.ReaderFrom).ReadFrom(conn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newNetKeeper(t, Config{Closing: Closing{Mode: CloseHalf, Timeout: eternal}})
			peer, server := connect(t, "tcp")
			conn := k.Conn(server)
			require.True(t, Of(conn).Close(ReasonIdle))
			_, err := peer.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "our side has ended")
			stop := make(chan struct{})
			var writer sync.WaitGroup
			writer.Go(func() { // both this transfer and the Keeper read
				defer peer.Close()
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := peer.Write(make([]byte, 100)); err != nil {
						return
					}
				}
			})
			var got bytes.Buffer
			n, err := transfer(&got, conn, k)
			close(stop)
			require.ErrorIs(t, err, ReasonIdle)
			require.Zero(t, n)
			require.Zero(t, got.Len())
			writer.Wait()
		})
	}
}
