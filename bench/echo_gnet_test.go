package bench

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"

	"github.com/heartwheel-go/heartwheel/internal/gnetsocket"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
)

// echoGnetConns is how many connections each server has: so many that what belongs
// to one is cold when its next message comes.
const echoGnetConns = 4000

// BenchmarkEchoGnet is BenchmarkEcho on gnet, with many connections: the bare
// server, the same with a Keeper, and one that is touched for each message.
func BenchmarkEchoGnet(b *testing.B) {
	if args := os.Getenv(echoEnv); args != "" {
		beEchoClient(strings.Fields(args))
		return
	}
	names := []string{"bare", "heartwheel", "heartwheel-manual"}
	keep := func(a keepalive.Activity) func(gnet.EventHandler) gnet.EventHandler {
		k, err := keepalive.New(keepalive.Config{Timeout: echoTimeout, Activity: a})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = k.Close() })
		return func(h gnet.EventHandler) gnet.EventHandler { return gnetkeepalive.Wrap(h, k) }
	}
	addrs := []net.Addr{
		serveGnet(b, &gnetEcho{}, func(h gnet.EventHandler) gnet.EventHandler { return h }),
		serveGnet(b, &gnetEcho{}, keep(keepalive.ActivityRead)),
		serveGnet(b, &gnetEcho{touches: true}, keep(keepalive.ActivityManual)),
	}
	client := startEchoClient(b, echoGnetConns, addrs)
	client.connected(b)
	measureEchoes(b, client, names, 1)
}

// gnetEcho sends back what comes.
type gnetEcho struct {
	gnet.BuiltinEventEngine
	touches bool // for each message
	engine  gnet.Engine
	booted  chan net.Addr
}

func (e *gnetEcho) OnBoot(engine gnet.Engine) gnet.Action {
	addr, err := gnetsocket.Addr(engine)
	if err != nil {
		panic(err)
	}
	e.engine = engine
	e.booted <- addr
	return gnet.None
}

func (e *gnetEcho) OnTraffic(c gnet.Conn) gnet.Action {
	message, _ := c.Next(-1)
	if e.touches {
		keepalive.Touch(c)
	}
	_, _ = c.Write(message)
	return gnet.None
}

// serveGnet runs a server until the benchmark ends: echo itself, or what wraps it.
func serveGnet(b *testing.B, echo *gnetEcho, wrap func(gnet.EventHandler) gnet.EventHandler) net.Addr {
	echo.booted = make(chan net.Addr, 1)
	stopped := make(chan error, 1)
	go func() {
		stopped <- gnet.Run(wrap(echo), "tcp://127.0.0.1:0", gnet.WithNumEventLoop(1), gnet.WithLogger(zap.NewNop().Sugar()))
	}()
	b.Cleanup(func() {
		_ = echo.engine.Stop(context.Background())
		if err := <-stopped; err != nil {
			b.Error(err)
		}
	})
	select {
	case addr := <-echo.booted:
		return addr
	case err := <-stopped:
		b.Fatal(err)
		return nil
	}
}
