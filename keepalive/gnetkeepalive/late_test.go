package gnetkeepalive

import (
	"testing"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/latetest"
)

func TestProbesDoNotMakeTheEndLate(t *testing.T) {
	latetest.Run(t, func(t *testing.T, cfg keepalive.Config) (*keepalive.Keeper, func() any) {
		opened := make(chan gnet.Conn, 1)
		w := observe(t, cfg, &app{onOpen: func(c gnet.Conn) ([]byte, gnet.Action) {
			opened <- c
			return nil, gnet.None
		}})
		return w.k, func() any {
			w.dial(t)
			return <-opened
		}
	})
}
