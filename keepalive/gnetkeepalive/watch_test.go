package gnetkeepalive

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// The address of a gnet connection belongs to its event loop. The guard has noted it.
func TestRemoteAddrDoesNotWaitForTheEventLoop(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	blocked, block := make(chan bool), make(chan bool)
	ends := make(chan keepalive.End, 1)
	defer k.Watch(func(e keepalive.End) { ends <- e })()
	a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
		if buf, _ := c.Peek(-1); string(buf) == "wait" {
			blocked <- true
			<-block
		}
		return echo(c)
	}}
	e := start(t, a, k, gnet.WithNumEventLoop(1))
	c := e.dial(t)
	say(t, c, "hello")
	var g *keepalive.Guard
	for g = range k.Guards() {
		break
	}
	require.Equal(t, c.LocalAddr().String(), g.RemoteAddr(t.Context()).String())

	_, err := c.Write([]byte("wait"))
	require.NoError(t, err)
	<-blocked
	require.Equal(t, c.LocalAddr().String(), g.RemoteAddr(t.Context()).String())
	close(block)

	require.NoError(t, c.Close())
	end := <-ends
	require.Equal(t, c.LocalAddr().String(), end.Remote.String())
	require.Equal(t, keepalive.ReasonPeer, end.Reason)
	require.Positive(t, end.Age)
	require.Nil(t, g.RemoteAddr(t.Context()))
}

// What stands for a gnet connection elsewhere, such as TLS over it, has its address.
func TestRemoteAddrOfWhatIsOverAConnection(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	e := start(t, &app{}, k, gnet.WithNumEventLoop(1))
	c := e.dial(t)
	say(t, c, "hello")
	for g := range k.Guards() {
		over := tls.Server(g.Conn().(net.Conn), nil)
		require.Equal(t, c.LocalAddr().String(), keepalive.Of(over).RemoteAddr(t.Context()).String())
	}
}

// An event loop drops its tasks when it goes down.
func TestRemoteAddrDoesNotWaitForALoopThatIsGone(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: time.Hour})
	blocked, block := make(chan bool), make(chan bool)
	a := &app{onTraffic: func(gnet.Conn) gnet.Action {
		blocked <- true
		<-block
		return gnet.Shutdown
	}}
	e := start(t, a, k, gnet.WithNumEventLoop(1))
	c := e.dial(t)
	_, err := c.Write([]byte("x"))
	require.NoError(t, err)
	<-blocked
	var g *keepalive.Guard
	for g = range k.Guards() {
		break
	}
	found := make(chan net.Addr)
	for range 10 {
		go func() { found <- g.RemoteAddr(context.Background()) }()
	}
	time.Sleep(50 * ms) // by now most are asking
	close(block)
	for range 10 {
		select {
		case <-found:
		case <-time.After(eternal):
			require.Fail(t, "it waits for a loop that has gone")
		}
	}
}
