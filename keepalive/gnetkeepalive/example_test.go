package gnetkeepalive_test

import (
	"errors"
	"log"
	"runtime"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
)

type echo struct {
	gnet.BuiltinEventEngine
}

func (*echo) OnTraffic(c gnet.Conn) gnet.Action {
	buf, _ := c.Next(-1)
	_, _ = c.Write(buf)
	return gnet.None
}

func (*echo) OnClose(_ gnet.Conn, err error) gnet.Action {
	if errors.Is(err, keepalive.ErrIdleTimeout) {
		log.Println("it was silent for 30s")
	}
	return gnet.None
}

func (*echo) OnBoot(eng gnet.Engine) gnet.Action {
	addr, err := gnetkeepalive.Addr(eng)
	if err != nil {
		return gnet.Shutdown
	}
	log.Println("listening on", addr)
	return gnet.None
}

func Example() {
	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()

	err = gnet.Run(gnetkeepalive.Wrap(&echo{}, k), "tcp://:9000", gnet.WithMulticore(true))
	if err != nil {
		log.Fatal(err)
	}
}

// As many connections as there are descriptors.
func Example_maxConns() {
	most, err := keepalive.MaxConns(3*runtime.NumCPU() + 100)
	if err != nil {
		log.Fatal(err)
	}
	k, err := keepalive.New(keepalive.Config{Room: keepalive.Room{MaxConns: most}})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()

	err = gnet.Run(gnetkeepalive.Wrap(&echo{}, k), "tcp://:9000", gnet.WithReusePort(true), gnet.WithMulticore(true))
	if err != nil {
		log.Fatal(err)
	}
}
