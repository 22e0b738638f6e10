//go:build unix

package connpool_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/connpool"
	"github.com/heartwheel-go/heartwheel/heartbeat"
)

// layer has a socket further inside, as a tls.Conn does.
type layer struct{ net.Conn }

func (l layer) NetConn() net.Conn { return l.Conn }

// raw is a layer, too, as a connection with a PROXY header.
type raw struct{ net.Conn }

func (r raw) Raw() net.Conn { return r.Conn }

// A heartbeat.Conn has a method SyscallConn, whatever is inside.
func TestAliveOfAConnectionThatHasNoSocketOfItsOwn(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	ctx := context.Background()
	require.NoError(t, connpool.Alive(ctx, heartbeat.Wrap(a)))

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	here, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer here.Close()
	there, err := ln.Accept()
	require.NoError(t, err)
	c := heartbeat.Wrap(raw{layer{here}})
	require.NoError(t, connpool.Alive(ctx, c))
	require.NoError(t, there.Close())
	require.Eventually(t, func() bool { return connpool.Alive(ctx, c) != nil }, time.Minute, time.Millisecond)
	require.ErrorIs(t, connpool.Alive(ctx, c), io.EOF)
}
