//go:build !windows

package netpollkeepalive_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/cloudwego/netpoll"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/netpollkeepalive"
)

func echo(_ context.Context, c netpoll.Connection) error {
	line, err := c.Reader().Until('\n')
	if err != nil {
		return err // keepalive.ErrIdleTimeout, if it was silent in the middle of a line
	}
	if _, err := c.Writer().WriteBinary(line); err != nil {
		return err
	}
	return c.Writer().Flush()
}

func Example() {
	k, err := keepalive.New(keepalive.Config{
		Timeout: 30 * time.Second,
		OnClose: func(_ any, reason keepalive.Reason) { log.Println(reason) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()

	ln, err := net.Listen("tcp", ":9000")
	if err != nil {
		log.Fatal(err)
	}
	loop, err := netpollkeepalive.NewEventLoop(k, netpollkeepalive.Handler{OnRequest: echo})
	if err != nil {
		log.Fatal(err)
	}
	err = loop.Serve(ln)
	fmt.Println(err)
}
