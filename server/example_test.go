package server_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/server"
)

func Example() {
	s, err := server.New(server.Config{
		Addr:    "127.0.0.1:0",
		Timeout: 5 * time.Minute,
		Keepalive: keepalive.Config{
			FirstMessage: 10 * time.Second,
			MaxAge:       24 * time.Hour,
			MaxPerKey:    100,
		},
		Drain: 10 * time.Millisecond, // in earnest more like half a minute
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background()) // most often signal.NotifyContext
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()

	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewScanner(c)
	fmt.Fprintln(c, "PING 1")
	answers.Scan()
	fmt.Println(answers.Text())

	// While it runs, most of the config can be changed.
	cfg := s.Config()
	cfg.Timeout = time.Minute
	if err := s.Update(cfg); err != nil {
		log.Fatal(err)
	}

	stop()
	answers.Scan()
	fmt.Println(answers.Text())
	fmt.Println(<-ended)
	// Output:
	// PONG 1
	// BYE server shutting down
	// <nil>
}
