package socket_test

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/socket"
)

// Layers like those of other packages.
type (
	netConn  struct{ net.Conn } // crypto/tls
	raw      struct{ net.Conn } // go-proxyproto
	embedded struct{ net.Conn } // netutil, cmux
	cycle    struct{ net.Conn } // claims to be inside itself
	variable struct {           // can't be compared
		net.Conn
		_ []byte
	}
	failing struct { // has the method, and shows no socket
		netConn
		err error
	}
)

func (c netConn) NetConn() net.Conn                     { return c.Conn }
func (c raw) Raw() net.Conn                             { return c.Conn }
func (c cycle) Raw() net.Conn                           { return c }
func (c failing) SyscallConn() (syscall.RawConn, error) { return nil, c.err }
func within(c net.Conn, depth int) net.Conn {
	for range depth {
		c = raw{netConn{c}}
	}
	return c
}

// unwrap returns a connection that it does not know as it is.
func unwrap(c net.Conn) net.Conn {
	if c, ok := c.(embedded); ok {
		return c.Conn
	}
	return c
}

func TestASocketIsFoundThroughWhateverStandsAroundIt(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	pipe, _ := net.Pipe()
	broken := errors.New("broken")
	for name, want := range map[string]struct {
		c      net.Conn
		unwrap func(net.Conn) net.Conn
		layers int
		err    error
	}{
		"itself":                      {c: c},
		"TLS":                         {c: tls.Server(c, nil), layers: 1},
		"a PROXY header":              {c: raw{c}, layers: 1},
		"TLS around one":              {c: tls.Server(raw{c}, nil), layers: 2},
		"many":                        {c: within(c, 40), layers: 80},
		"a function knows":            {c: netConn{embedded{raw{c}}}, unwrap: unwrap, layers: 3},
		"a function does not know":    {c: netConn{variable{Conn: c}}, unwrap: func(net.Conn) net.Conn { return nil }, layers: 2, err: socket.ErrNone},
		"can't be compared":           {c: variable{Conn: c}, unwrap: unwrap, layers: 100, err: socket.ErrNone},
		"unsupported, and one inside": {c: failing{netConn{c}, errors.ErrUnsupported}, layers: 1},
		"broken, and one inside":      {c: failing{netConn{c}, broken}, layers: 1},
		"broken":                      {c: failing{err: broken}, layers: 1, err: broken},
		"unsupported":                 {c: failing{err: errors.ErrUnsupported}, layers: 1, err: socket.ErrNone},
		"nobody knows":                {c: embedded{c}, layers: 1, err: socket.ErrNone},
		"inside itself":               {c: cycle{c}, layers: 100, err: socket.ErrNone},
		"a pipe":                      {c: raw{pipe}, layers: 2, err: socket.ErrNone},
		"nothing inside":              {c: raw{}, layers: 1, err: socket.ErrNone},
		"nothing":                     {err: socket.ErrNone},
		"a nil pointer inside":        {c: raw{(*tls.Conn)(nil)}, layers: 1, err: socket.ErrNone},
		"a nil pointer":               {c: (*tls.Conn)(nil), err: socket.ErrNone},
		"a function returns one":      {c: netConn{c}, unwrap: func(net.Conn) net.Conn { return (*tls.Conn)(nil) }, layers: 1},
	} {
		found, layers, err := socket.Of(want.c, want.unwrap)
		require.ErrorIs(t, err, want.err, name)
		require.Equal(t, want.err == nil, found != nil, name)
		require.Equal(t, want.layers, layers, name)
	}
}

func TestAPipeIsKnownThroughItsLayers(t *testing.T) {
	pipe, other := net.Pipe()
	require.True(t, socket.IsPipe(pipe, nil))
	require.True(t, socket.IsPipe(tls.Server(raw{other}, nil), nil))
	require.True(t, socket.IsPipe(embedded{pipe}, unwrap))
	require.False(t, socket.IsPipe(embedded{pipe}, nil))
	require.False(t, socket.IsPipe(nil, nil))
	require.False(t, socket.IsPipe(raw{(*tls.Conn)(nil)}, nil))
}
