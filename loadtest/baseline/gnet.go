package main

import (
	"context"
	"log/slog"
	"math"
	"net"
	"runtime"
	"sync"

	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"

	"github.com/heartwheel-go/heartwheel/internal/gnetsocket"
	"github.com/heartwheel-go/heartwheel/internal/port"
	"github.com/heartwheel-go/heartwheel/internal/protocol"
)

// serveGnet is package server without keepalive and what builds on it. It does
// the same for each line, with as many loops.
func serveGnet(ctx context.Context, addr string, listening func(net.Addr)) error {
	claim, addr, err := port.Claim(addr)
	if err != nil {
		return err
	}
	defer claim.Close()
	return gnet.Run(&bare{ctx: ctx, claim: claim, listening: listening}, "tcp://"+addr,
		gnet.WithNumEventLoop(runtime.GOMAXPROCS(0)),
		gnet.WithReusePort(port.Shared),
		gnet.WithReuseAddr(true),
		gnet.WithLogger(zap.NewNop().Sugar()),
	)
}

type bare struct {
	gnet.BuiltinEventEngine
	ctx       context.Context
	claim     net.Listener // to be closed before it gets connections
	listening func(net.Addr)
	answers   sync.Pool // of *[]byte
}

func (b *bare) OnBoot(eng gnet.Engine) gnet.Action {
	addr, err := gnetsocket.Addr(eng)
	if err != nil {
		slog.Error("no address", "error", err)
		return gnet.Shutdown
	}
	_ = b.claim.Close()
	context.AfterFunc(b.ctx, func() { _ = eng.Stop(b.ctx) })
	b.listening(addr)
	return gnet.None
}

func (b *bare) OnTraffic(c gnet.Conn) (action gnet.Action) {
	buf, _ := c.Next(-1)
	kept, _ := c.Context().(*protocol.Lines)
	var stream protocol.Lines
	if kept != nil {
		stream = *kept
	}
	pooled, ok := b.answers.Get().(*[]byte)
	if !ok {
		pooled = new([]byte)
	}
	defer b.answers.Put(pooled)
	out := (*pooled)[:0]
	for len(buf) > 0 && action == gnet.None {
		var line, ending []byte
		line, ending, buf, _ = stream.Next(buf, math.MaxInt)
		if ending == nil {
			break
		}
		var last bool
		if out, last = protocol.Answer(out, line, ending); last {
			action = gnet.Close
		}
	}
	*pooled = out[:0]
	if len(out) > 0 {
		if _, err := c.Write(out); err != nil {
			return gnet.None
		}
	}
	if kept == nil && stream.Partial() {
		kept = new(protocol.Lines)
		c.SetContext(kept)
	}
	if kept != nil {
		*kept = stream
	}
	return action
}
