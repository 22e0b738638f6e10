package connpool_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/connpool"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// serve answers each line with the same line.
func serve() net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					fmt.Fprintln(c, lines.Text())
				}
			}()
		}
	}()
	return ln
}

func Example() {
	ln := serve()
	defer ln.Close()
	addr := ln.Addr().String()

	var dialer net.Dialer
	p, err := connpool.New(connpool.Config[net.Conn]{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", addr)
		},
		MaxOpen:     10,
		MaxIdleTime: time.Minute,
		MaxAge:      time.Hour,
		Check:       connpool.Alive,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	ask := func(ctx context.Context, question string) (string, error) {
		lease, err := p.Get(ctx)
		if err != nil {
			return "", err
		}
		defer lease.Drop() // does nothing after Put
		deadline, _ := ctx.Deadline()
		_ = lease.Conn.SetDeadline(deadline)
		if _, err := fmt.Fprintln(lease.Conn, question); err != nil {
			return "", err // broken: nobody else gets it
		}
		answer, err := bufio.NewReader(lease.Conn).ReadString('\n')
		if err != nil {
			return "", err
		}
		return answer, lease.Put() // at rest: the whole answer was read
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, question := range []string{"who", "when", "why"} {
		answer, err := ask(ctx, question)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(answer)
	}
	s := p.Stats()
	fmt.Println(s.Gets, "gets,", s.Dials, "dial,", s.Idle, "idle")
	// Output:
	// who
	// when
	// why
	// 3 gets, 1 dial, 1 idle
}

// Pools for many backends share one wheel: one goroutine for all idle connections.
func ExampleGroup() {
	ln := serve()
	defer ln.Close()
	backends := map[string]string{"eu": ln.Addr().String(), "us": ln.Addr().String()}

	g, err := connpool.NewGroup(wheel.Config{Tick: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close() // and all its pools

	pools := map[string]*connpool.Pool[net.Conn]{}
	for name, addr := range backends {
		pools[name], err = connpool.New(connpool.Config[net.Conn]{
			Dial: func(ctx context.Context) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			},
			Group: g,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	lease, err := pools["eu"].Get(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Len(), "pools,", pools["eu"].Stats().InUse, "in use")
	_ = lease.Put()
	// Output: 2 pools, 1 in use
}

// The end of a connection is logged. The connections are client objects.
func ExampleConfig_close() {
	type client struct{ net.Conn }
	p, err := connpool.New(connpool.Config[*client]{
		Dial: func(context.Context) (*client, error) {
			c, _ := net.Pipe()
			return &client{c}, nil
		},
		Close: func(c *client, why connpool.Reason) {
			fmt.Println("closed:", why)
			_ = c.Close()
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := p.Get(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = lease.Drop()
	_ = p.Close()
	// Output: closed: dropped
}

// A lease that nobody puts back is reported, with the place of its Get.
func ExampleLeak() {
	reported := make(chan connpool.Leak[net.Conn])
	p, err := connpool.New(connpool.Config[net.Conn]{
		Dial: func(context.Context) (net.Conn, error) {
			c, _ := net.Pipe()
			return c, nil
		},
		LeakAfter: 50 * time.Millisecond,
		OnLeak:    func(l connpool.Leak[net.Conn]) { reported <- l },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := p.Get(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	leak := <-reported
	fmt.Println("returned:", leak.Returned)
	function, _, _ := strings.Cut(leak.Stack, "\n")
	fmt.Println(path.Base(function))
	_ = lease.Put()
	fmt.Println("returned:", (<-reported).Returned)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(p.Shutdown(ctx))
	// Output:
	// returned: false
	// connpool_test.ExampleLeak()
	// returned: true
	// <nil>
}
