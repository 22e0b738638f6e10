package gnetkeepalive

import (
	"bytes"
	"net"
	"testing"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/frameworks"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
)

func TestTheAdapterForGnetConforms(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]gnet.Option{
		"one loop":                  {gnet.WithNumEventLoop(1)},
		"edge-triggered, two loops": {gnet.WithEdgeTriggeredIO(true), gnet.WithNumEventLoop(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proved := adaptertest.Run(t, adaptertest.Adapter{
				NoWait: true, InLoop: true, NoGoexit: true,
				Start: func(t *testing.T, k *keepalive.Keeper, handle adaptertest.Handler) net.Addr {
					return start(t, &app{onTraffic: func(c gnet.Conn) gnet.Action { return handleLines(c, handle) }}, k, opts...).addr
				},
			})
			frameworks.Check(t, "[gnet](gnet.md)", "Linux, macOS, BSD", proved)
		})
	}
}

// handleLines handles all lines that are whole.
func handleLines(c gnet.Conn, handle adaptertest.Handler) gnet.Action {
	for {
		buf, _ := c.Peek(-1)
		n := bytes.IndexByte(buf, '\n')
		if n < 0 {
			return gnet.None
		}
		line := string(buf[:n])
		_, _ = c.Discard(n + 1)
		answer, stay := handle(c, line)
		_, _ = c.Write(answer)
		if !stay {
			return gnet.Close
		}
	}
}
