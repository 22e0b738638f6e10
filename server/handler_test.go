package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

var loopback net.Addr = new(net.TCPAddr)

// fakeConn is what OnTraffic needs of a connection.
type fakeConn struct {
	gnet.Conn
	in       []byte
	out      strings.Builder
	ctx      any
	writeErr error
	unsent   int
	gone     bool
}

func (c *fakeConn) Next(int) ([]byte, error) { b := c.in; c.in = nil; return b, nil }
func (c *fakeConn) Write(b []byte) (int, error) {
	if c.writeErr != nil {
		return 0, c.writeErr
	}
	return c.out.Write(b)
}
func (c *fakeConn) Context() any       { return c.ctx }
func (c *fakeConn) SetContext(ctx any) { c.ctx = ctx }
func (c *fakeConn) SafeContext() any   { return nil }
func (c *fakeConn) RemoteAddr() net.Addr {
	if c.gone {
		return nil
	}
	return loopback
}
func (c *fakeConn) OutboundBuffered() int { return c.unsent }
func (c *fakeConn) Fd() int               { return -1 }

func handlerOf(t testing.TB, cfg Config) *handler {
	s, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown(context.Background())) })
	return newHandler(s)
}

// say gives chunks to the handler as if each had been one read, and returns what
// the peer gets and the last action.
func say(h *handler, chunks ...string) (string, gnet.Action) {
	c := &fakeConn{}
	for _, chunk := range chunks {
		c.in = []byte(chunk)
		if action := h.OnTraffic(c); action != gnet.None {
			return c.out.String(), action
		}
	}
	return c.out.String(), gnet.None
}

// Every row of the protocol, split at every byte.
func TestProtocol(t *testing.T) {
	h := handlerOf(t, Config{MaxLine: 20})
	long := strings.Repeat("x", 21)
	for _, c := range []struct {
		in, out string
		action  gnet.Action
	}{
		{"hello\n", "hello\n", gnet.None},
		{"hello\r\n", "hello\r\n", gnet.None},
		{"\n", "\n", gnet.None},
		{"PING\n", "PONG\n", gnet.None},
		{"PING 12\r\n", "PONG 12\r\n", gnet.None},
		{"a\nPING\nb\r\nPING x\n", "a\nPONG\nb\r\nPONG x\n", gnet.None},
		{"QUIT\n", "BYE\n", gnet.Close},
		{"a\nQUIT\r\nnever\n", "a\nBYE\r\n", gnet.Close},
		{"no end", "", gnet.None},
		{"a\nno end", "a\n", gnet.None},
		{long + "\n", "ERR line too long\n", gnet.Close},
		{long, "ERR line too long\n", gnet.Close},
		{"a\n" + long + "\nb\n", "a\nERR line too long\n", gnet.Close},
		{long[:20] + "\r\n", long[:20] + "\r\n", gnet.None},
		{"bin\x00ary\xff\n", "bin\x00ary\xff\n", gnet.None},
	} {
		for i := 0; i <= len(c.in); i++ {
			out, action := say(h, c.in[:i], c.in[i:])
			require.Equal(t, c.out, out, "%q split at %d", c.in, i)
			require.Equal(t, c.action, action, "%q split at %d", c.in, i)
		}
		out, action := say(h, strings.Split(c.in, "")...)
		require.Equal(t, c.out, out, "%q byte by byte", c.in)
		require.Equal(t, c.action, action)
	}
}

func TestConnectionsWithoutAPartialLineRememberNothing(t *testing.T) {
	h := handlerOf(t, Config{})
	c := &fakeConn{in: []byte("hello\nPING\n")}
	require.Equal(t, gnet.None, h.OnTraffic(c))
	require.Nil(t, c.ctx)
	c.in = []byte("par")
	require.Equal(t, gnet.None, h.OnTraffic(c))
	require.NotNil(t, c.ctx)
}

func TestFailedWriteEndsTheConnection(t *testing.T) {
	h := handlerOf(t, Config{})
	c := &fakeConn{in: []byte("hello\nno end"), writeErr: errors.New("broken pipe")}
	require.Equal(t, gnet.None, h.OnTraffic(c), "gnet has closed it already")
	require.Nil(t, c.ctx)
}

func TestPeerThatDoesNotReadIsClosed(t *testing.T) {
	h := handlerOf(t, Config{MaxOutbound: 1000})
	c := &fakeConn{in: []byte("hello\n"), unsent: 1000}
	require.Equal(t, gnet.None, h.OnTraffic(c))
	c.in, c.unsent = []byte("hello\n"), 1001
	require.Equal(t, gnet.Close, h.OnTraffic(c))
	require.EqualValues(t, 1, h.Stats().SlowReaders)
}

// FuzzProtocol: however the stream is cut, the answers are the same.
func FuzzProtocol(f *testing.F) {
	f.Add([]byte("PING 1\nhello\r\nQUIT\nnever\n"), uint8(3))
	f.Add([]byte("0123456789012345678901\n"), uint8(7))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		h := handlerOf(t, Config{MaxLine: 20, Config: keepalive.Config{Room: keepalive.Room{MaxConns: 1}}})
		want, wantAction := say(h, string(stream))
		var chunks []string
		for rest := string(stream); len(rest) > 0; {
			n := min(int(step%16)+1, len(rest))
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		got, action := say(h, chunks...)
		require.Equal(t, want, got)
		require.Equal(t, wantAction, action)
	})
}

func BenchmarkOnTraffic(b *testing.B) {
	for _, lines := range []int{1, 16} {
		b.Run(fmt.Sprintf("lines=%d", lines), func(b *testing.B) {
			h := handlerOf(b, Config{})
			in := []byte(strings.Repeat("PING 123456\n", lines))
			c := &fakeConn{}
			b.ReportAllocs()
			for b.Loop() {
				c.in = in
				c.out.Reset()
				h.OnTraffic(c)
			}
		})
	}
}
