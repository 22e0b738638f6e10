package debughttp

import (
	"context"
	"net"
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

// On gnet only the event loop knows the address of a connection. Nobody waits for a busy loop.
func TestAddressesComeFromEventLoops(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{})
	b := &blocking{booted: make(chan gnet.Engine, 1), busy: make(chan struct{}), goOn: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		done <- gnet.Run(gnetkeepalive.Wrap(b, k), "tcp://127.0.0.1:0", gnet.WithLogger(logging.Logger(zap.NewNop().Sugar())))
	}()
	engine := <-b.booted
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), ms)
		defer cancel()
		_ = engine.Stop(ctx)
		require.NoError(t, <-done)
	}()
	c, err := net.Dial("tcp", b.addr.String())
	require.NoError(t, err)
	defer c.Close()
	require.Eventually(t, func() bool { return k.Len() == 1 }, eternal, ms)

	address := func() string {
		h.look.refresh(h)
		require.Len(t, h.look.idlest, 1)
		return h.look.idlest[0].Addr
	}
	require.Eventually(t, func() bool { // nobody waits for a busy loop
		h.look.fresh = time.Time{}
		return address() == c.LocalAddr().String()
	}, eternal, ms)
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	<-b.busy
	h.look.fresh = time.Time{}
	begin := time.Now()
	require.Empty(t, address())
	require.Less(t, time.Since(begin), eternal)
	close(b.goOn)

	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { _, seen := h.recent.list(); return seen == 1 }, eternal, ms)
	require.Equal(t, c.LocalAddr().String(), see(t, h).Recent[0].Addr)
}
