package gnetkeepalive

import (
	"context"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// The address of a gnet connection belongs to its event loop.
func TestRemoteAddrAsksTheEventLoop(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	block := make(chan bool)
	ends := make(chan keepalive.End, 1)
	defer k.Watch(func(e keepalive.End) { ends <- e })()
	a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
		if buf, _ := c.Peek(-1); string(buf) == "wait" {
			<-block
		}
		return echo(c)
	}}
	e := start(t, a, k, gnet.WithNumEventLoop(1))
	c := e.dial(t)
	say(t, c, "hello")
	var conn any
	for conn = range k.Conns() {
		break
	}
	require.Equal(t, c.LocalAddr().String(), k.RemoteAddr(t.Context(), conn).String())

	_, err := c.Write([]byte("wait"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Eventually(t, func() bool { return k.RemoteAddr(ctx, conn) == nil }, eternal, ms, "the loop is blocked")
	close(block)

	require.NoError(t, c.Close())
	end := <-ends
	require.Equal(t, c.LocalAddr().String(), end.Remote.String())
	require.Equal(t, keepalive.ReasonPeer, end.Reason)
	require.Positive(t, end.Age)
	require.Nil(t, k.RemoteAddr(t.Context(), conn))
}
