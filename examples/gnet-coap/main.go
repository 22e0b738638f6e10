// Command gnet-coap answers CoAP requests on gnet, with a session for each address.
//
// Whole messages of CoAP are life, and other datagrams are not: with FirstMessage, the session of
// a stranger without CoAP ends soon. The answer to GET is the number of the peer's requests so far.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/internal/port"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/udpkeepalive"
)

func main() { example.Main("127.0.0.1:5683", serve) }

// requests is our part of a session.
type requests int

func serve(ctx context.Context, args example.Args) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:      args.Timeout,
		Activity:     keepalive.ActivityManual,
		FirstMessage: args.Timeout / 4,
		Room:         keepalive.Room{MaxConns: 100_000, MaxPerKey: 1000},
		OnClose: func(conn any, reason keepalive.Reason) {
			args.Closed(conn.(*udpkeepalive.Session[requests]).Peer(), reason)
		},
		Logger: args.Log,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	claim, addr, err := port.ClaimUDP(args.Addr) // gnet would share a taken port
	if err != nil {
		return err
	}
	h := &coap{args: args, claim: claim, booted: make(chan gnet.Engine, 1)}
	ended := make(chan error, 1)
	go func() {
		handler := gnetkeepalive.WrapUDP[requests](h, k)
		ended <- gnet.Run(handler, "udp://"+addr, gnet.WithMulticore(true), gnet.WithSocketRecvBuffer(4<<20))
	}()
	select {
	case eng := <-h.booted:
		stopped := make(chan struct{})
		unused := context.AfterFunc(ctx, func() { stop(eng); close(stopped) })
		if err = <-ended; !unused() {
			<-stopped
		}
	case err = <-ended:
	}
	if err == nil && ctx.Err() == nil {
		err = errors.New("gnet has stopped by itself") // gnet takes this for no error
	}
	return err
}

// stop ends the sessions, too. CoAP has no goodbye, or Keeper.Drain would come first.
func stop(eng gnet.Engine) {
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = eng.Stop(patience)
}

type coap struct {
	gnet.BuiltinEventEngine
	args   example.Args
	claim  net.PacketConn
	booted chan gnet.Engine
}

func (h *coap) OnBoot(eng gnet.Engine) gnet.Action {
	h.args.Listening(h.claim.LocalAddr())
	_ = h.claim.Close()
	h.booted <- eng
	return gnet.None
}

func (h *coap) OnTraffic(c gnet.Conn) gnet.Action {
	buf, err := c.Next(-1)
	if err != nil {
		return gnet.None
	}
	m, ok := parse(buf)
	if !ok {
		return gnet.None
	}
	session := c.SafeContext().(*udpkeepalive.Session[requests])
	keepalive.Touch(session)
	answer, ok := m.answer()
	if !ok {
		return gnet.None
	}
	text := ""
	if answer.code == content {
		session.Value++
		text = fmt.Sprintf("request %d", session.Value)
	}
	_, _ = c.Write(answer.append(nil, text)) // UDP may lose it anyway
	return gnet.None
}
