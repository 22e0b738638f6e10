package keepalive

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
)

// TLS hides ReadFrom from io.Copy, and so the bytes come as writes. A peer that takes them slowly lives, and one
// that takes no more does not.
func TestADownloadOverTLSToASlowPeerIsNotCut(t *testing.T) {
	t.Parallel()
	cert, roots := certtest.New(t)
	eachActivity(t, []Activity{ActivityRead, ActivityKernel}, func(t *testing.T, activity Activity) {
		for !testSlowDownload(t, activity, cert, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}) {
			continue
		}
	})
}

func testSlowDownload(t *testing.T, activity Activity, cert tls.Certificate, client *tls.Config) (steady bool) {
	k := newKeeper(t, Config{Timeout: short, Tick: 20 * ms, Activity: activity})
	outer, inner := connect(t, "tcp")
	begin := time.Now()
	require.NoError(t, inner.(*net.TCPConn).SetWriteBuffer(64<<10)) // a larger one has room again in large pieces only
	require.NoError(t, outer.(*net.TCPConn).SetReadBuffer(64<<10))
	peer := tls.Client(outer, client)
	guarded := k.Conn(inner)
	conn := tls.Server(guarded, &tls.Config{Certificates: []tls.Certificate{cert}})
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, readerFunc(func(p []byte) (int, error) { return len(p), nil }))
		ended <- err
	}()
	// The peer's kernel announces room again once a packet of loopback, of 64 KiB, has some.
	const piece, packet = 16 << 10, 64 << 10
	var reads [packet / piece]time.Time // the last ones, in turn
	for i := range reads {
		reads[i] = begin
	}
	for i := 0; time.Since(begin) < 5*short; i = (i + 1) % len(reads) {
		time.Sleep(short / 10)
		_, err := io.ReadFull(peer, make([]byte, piece))
		if time.Since(reads[i]) > short*3/4 {
			return false
		}
		reads[i] = time.Now()
		require.NoError(t, err, "after %v", time.Since(begin))
		if len(ended) == 0 && Of(guarded).ask().queued == 0 && len(ended) == 0 {
			return false // the peer waits for this side
		}
	}
	cut := len(ended) > 0
	if time.Since(begin) > 5*short+short/2 { // it may have been silent for too long since then
		return false
	}
	require.False(t, cut)
	require.ErrorIs(t, <-ended, ErrIdleTimeout)
	return true
}

// One that stayed would make the acknowledgements of all later bytes signs of life.
func TestATransferEndsWithItsCall(t *testing.T) {
	k := newKeeper(t, Config{})
	peer, inner := connect(t, "tcp")
	c := k.Conn(inner).(*tcpConn)
	running := func() int32 { return c.transfers.Load() }
	r := readerFunc(func([]byte) (int, error) {
		require.EqualValues(t, 1, running())
		return 0, io.EOF
	})
	_, err := c.ReadFrom(r)
	require.NoError(t, err)
	require.Zero(t, running())

	_, err = peer.Write([]byte("xyz"))
	require.NoError(t, err)
	_, other := connect(t, "tcp")
	limited := &io.LimitedReader{R: c, N: 2}
	_, err = k.Conn(other).(*tcpConn).ReadFrom(limited)
	require.NoError(t, err)
	require.Zero(t, limited.N)
	require.Zero(t, running())

	require.NoError(t, peer.(interface{ CloseWrite() error }).CloseWrite())
	var rest bytes.Buffer
	_, err = c.WriteTo(writerFunc(func(p []byte) (int, error) {
		require.EqualValues(t, 1, running())
		return rest.Write(p)
	}))
	require.NoError(t, err)
	require.Equal(t, "z", rest.String())
	require.Zero(t, running())
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
