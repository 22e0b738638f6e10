//go:build !windows

package netpollkeepalive

import (
	"testing"

	"github.com/cloudwego/netpoll"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) {
	if err := netpoll.Configure(netpoll.Config{PollerNum: 2}); err != nil {
		panic(err)
	}
	netpoll.Initialize() // the pollers are for ever
	testmain.Run(m, goleak.IgnoreCurrent())
}
