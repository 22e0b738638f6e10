package nbiokeepalive_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/lesismal/nbio"
	"github.com/lesismal/nbio/logging"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/nbiokeepalive"
)

func Example() {
	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()

	engine := nbiokeepalive.Wrap(nbio.NewEngine(nbio.Config{Network: "tcp", Addrs: []string{":9000"}}), k)
	engine.OnData(func(c *nbio.Conn, data []byte) { _, _ = c.Write(data) })
	engine.OnClose(func(_ *nbio.Conn, err error) {
		if errors.Is(err, keepalive.ErrIdleTimeout) {
			log.Println("it was silent for 30s")
		}
	})
	if err := engine.Start(); err != nil {
		log.Fatal(err)
	}
	defer engine.Stop()
	select {}
}

// A callback in place of a close: OnIdle is asked about each silent connection, and its verdict
// is what happens. keepalive.Ignore never closes one.
func Example_onIdle() {
	ended := make(chan keepalive.Reason, 1)
	k, err := keepalive.New(keepalive.Config{
		Timeout: 100 * time.Millisecond,
		OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
			c, g := conn.(*nbio.Conn), keepalive.Of(conn)
			if g.Value() != nil {
				return keepalive.Close
			}
			g.SetValue("warned")
			_, _ = fmt.Fprintln(c, "are you still there?")
			return keepalive.Extend(100 * time.Millisecond)
		},
		OnClose: func(_ any, reason keepalive.Reason) { ended <- reason },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()

	logging.SetLevel(logging.LevelNone)
	engine := nbiokeepalive.Wrap(nbio.NewEngine(nbio.Config{Network: "tcp", Addrs: []string{"127.0.0.1:0"}}), k)
	if err := engine.Start(); err != nil {
		log.Fatal(err)
	}
	defer engine.Stop()
	client, err := net.Dial("tcp", engine.Addrs[0])
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	heard, err := io.ReadAll(client)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(heard))
	fmt.Println(<-ended)
	// Output:
	// are you still there?
	// keepalive: idle timeout
}
