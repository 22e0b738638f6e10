package debughttp

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/heartwheel-go/heartwheel/internal/gnetsocket"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
)

const eternal = time.Minute // how long a test waits for what must come

// blocking is a gnet server. On a byte, its event loop waits until the test lets it go on.
type blocking struct {
	gnet.BuiltinEventEngine
	booted chan gnet.Engine
	addr   net.Addr
	busy   chan struct{}
	goOn   chan struct{}
}

func (b *blocking) OnBoot(eng gnet.Engine) gnet.Action {
	b.addr, _ = gnetsocket.Addr(eng)
	b.booted <- eng
	return gnet.None
}

func (b *blocking) OnTraffic(c gnet.Conn) gnet.Action {
	_, _ = c.Next(-1)
	b.busy <- struct{}{}
	<-b.goOn
	return gnet.None
}

// On gnet only the event loop may ask a socket. Nobody waits for a busy loop, and the address is
// known without it.
func TestABusyEventLoopIsNotWaitedFor(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{})
	b := &blocking{booted: make(chan gnet.Engine, 1), busy: make(chan struct{}), goOn: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		done <- gnet.Run(gnetkeepalive.Wrap(b, k), "tcp://127.0.0.1:0", gnet.WithLogger(logging.Logger(zap.NewNop().Sugar())))
	}()
	engine := <-b.booted
	var goOn sync.Once
	defer func() {
		goOn.Do(func() { close(b.goOn) })
		ctx, cancel := context.WithTimeout(context.Background(), ms)
		defer cancel()
		_ = engine.Stop(ctx)
		require.NoError(t, <-done)
	}()
	c, err := net.Dial("tcp", b.addr.String())
	require.NoError(t, err)
	defer c.Close()
	require.Eventually(t, func() bool { return k.Len() == 1 }, eternal, ms)
	row := func() Connection {
		rows := listed(t, h, "").Connections
		require.Len(t, rows, 1)
		require.Equal(t, c.LocalAddr().String(), rows[0].Addr)
		require.Equal(t, c.LocalAddr().String(), see(t, h).Idlest[0].Addr)
		return rows[0]
	}
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	<-b.busy
	begin := time.Now()
	require.Nil(t, row().Received)
	require.Less(t, time.Since(begin), eternal)
	goOn.Do(func() { close(b.goOn) })
	if runtime.GOOS == "linux" {
		require.Eventually(t, func() bool { r := row(); return r.Received != nil && *r.Received == 1 && r.Measured == "kernel" }, eternal, ms)
	}

	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { _, seen := h.recent.list(); return seen == 1 }, eternal, ms)
	require.Equal(t, c.LocalAddr().String(), listed(t, h, "state=closed").Connections[0].Addr)
}
