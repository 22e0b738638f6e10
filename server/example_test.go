package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/server"
)

func Example() {
	s, err := server.New(server.Config{
		Addr: "127.0.0.1:0",
		Config: keepalive.Config{
			Timeout:      5 * time.Minute,
			FirstMessage: 10 * time.Second,
			Age:          keepalive.Age{Max: 24 * time.Hour},
			Room:         keepalive.Room{MaxPerKey: 100},
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

// A protocol of the program's own. Clients log in with their names.
func ExampleConfig_line() {
	s, err := server.New(server.Config{
		Addr: "127.0.0.1:0",
		Line: func(_ gnet.Conn, line []byte) (answer []byte, handled bool) {
			name, ok := bytes.CutPrefix(line, []byte("HELLO "))
			if !ok {
				return nil, false // the server answers
			}
			return fmt.Appendf(nil, "WELCOME %s", name), true
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()

	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	answers := bufio.NewScanner(c)
	for _, line := range []string{"HELLO Ada", "PING 1"} {
		fmt.Fprintln(c, line)
		answers.Scan()
		fmt.Println(answers.Text())
	}
	c.Close()
	stop()
	fmt.Println(<-ended)
	// Output:
	// WELCOME Ada
	// PONG 1
	// <nil>
}
