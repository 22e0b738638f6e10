//go:build unix

package gnetkeepalive

import (
	"net"
	"strings"
	"testing"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
	"github.com/heartwheel-go/heartwheel/keepalive/udpkeepalive"
)

func TestTheAdapterForUDPOnGnetConforms(t *testing.T) {
	t.Parallel()
	adaptertest.Run(t, adaptertest.Adapter{
		Datagrams: true, NoSocket: true, NoGoexit: true,
		Start: func(t *testing.T, k *keepalive.Keeper, handle adaptertest.Handler) net.Addr {
			return startUDP(t, k, func(c gnet.Conn) gnet.Action {
				line, _ := c.Next(-1)
				session := c.SafeContext().(*udpkeepalive.Session[int])
				answer, stay := handle(session, strings.TrimSuffix(string(line), "\n"))
				if len(answer) > 0 {
					_, _ = c.Write(answer)
				}
				if !stay {
					return gnet.Close
				}
				return gnet.None
			}).addr
		},
	})
}

func startUDP(t testing.TB, k *keepalive.Keeper, onTraffic func(c gnet.Conn) gnet.Action) *engine {
	a := &app{booted: make(chan booted, 1), onTraffic: onTraffic}
	return run(t, "udp://127.0.0.1:0", a, WrapUDP[int](a, k))
}
