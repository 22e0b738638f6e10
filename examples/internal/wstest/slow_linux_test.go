package wstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// message is more than the buffers of two sockets can take.
var message = bytes.Repeat([]byte("x"), 16<<20)

// slowConn reads slowly.
type slowConn struct {
	net.Conn
	perByte time.Duration

	took    time.Time     // when it last took bytes
	longest time.Duration // time between two such instants
}

func (c *slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), 64<<10)])
	if now := time.Now(); n > 0 {
		if !c.took.IsZero() {
			c.longest = max(c.longest, now.Sub(c.took))
		}
		c.took = now
	}
	time.Sleep(time.Duration(n) * c.perByte)
	return n, err
}

// dialSlow returns a client that reads slowly, and little in advance.
func (s *server) dialSlow(t *testing.T, perByte time.Duration) (ws *gorilla.Conn, over *slowConn) {
	dialer := gorilla.Dialer{
		TLSClientConfig: insecure(),
		ReadBufferSize:  64 << 10,
		NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			over = &slowConn{Conn: conn, perByte: perByte}
			return over, conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		},
	}
	ws, _, err := dialer.Dial(s.url("ws", "/ws?name=alice"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	return ws, over
}

// A client in the middle of a long message can't see pings. As long as it takes some of the
// message, it lives.
func TestASlowDownloadOfALongMessageIsNotCut(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		for !slowDownload(t, v) {
			t.Log("the client was too slow itself: once more")
		}
	})
}

// slowDownload reports whether the client always took the next bytes in time.
func slowDownload(t *testing.T, v variant) (inTime bool) {
	s := start(t, v, func(s socket, _ *keepalive.Guard) error {
		if err := s.write(message); err != nil {
			return err
		}
		_, err := s.read()
		return err
	})
	c, over := s.dialSlow(t, 2*timeout/time.Duration(len(message)))
	pings := 0
	pong := c.PingHandler()
	c.SetPingHandler(func(data string) error { pings++; return pong(data) })
	began := time.Now()
	_, r, err := c.NextReader()
	require.NoError(t, err)
	for n := 0; n < len(message); {
		got, err := io.CopyN(io.Discard, r, int64(min(1<<20, len(message)-n)))
		if err != nil && over.longest > timeout/2 {
			return false
		}
		require.NoError(t, err, "after %v, at %d", time.Since(began), n)
		n += int(got)
	}
	require.Greater(t, time.Since(began), 2*timeout)
	go func() {
		for {
			if _, _, err := c.ReadMessage(); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return s.keeper.Stats().Probes >= 2 }, exampletest.Late, 10*time.Millisecond)
	require.Empty(t, s.told)
	return true
}

// A client that stops in the middle of a long message is closed, and no close frame comes in the
// middle of the message.
func TestAClientThatTakesNothingOfAMessage(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		s := start(t, v, func(s socket, _ *keepalive.Guard) error {
			go func() { _ = s.write(message) }()
			_, err := s.read()
			return err
		})
		c, _ := s.dialSlow(t, 0)
		last := time.Now()
		s.requireEnd(t, keepalive.ReasonNoAnswer)
		require.GreaterOrEqual(t, time.Since(last), timeout-100*time.Millisecond)
		_, r, err := c.NextReader()
		require.NoError(t, err)
		rest, err := io.ReadAll(r)
		var goodbye *gorilla.CloseError
		require.False(t, errors.As(err, &goodbye) && goodbye.Code != gorilla.CloseAbnormalClosure, err)
		require.Less(t, len(rest), len(message))
		require.Empty(t, bytes.Trim(rest, "x"))
	})
}
