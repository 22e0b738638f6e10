package keepalive_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Any server that takes a net.Listener.
func Example() {
	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	ln = k.Listener(ln) // below TLS, if there is TLS
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go echo(conn)
		}
	}()

	ln.Close()
}

func echo(conn net.Conn) {
	defer conn.Close()
	_, err := io.Copy(conn, conn)
	fmt.Println(errors.Is(err, keepalive.ErrIdleTimeout))
}

// A peer that says nothing.
func ExampleKeeper_Conn() {
	k, err := keepalive.New(keepalive.Config{Timeout: 50 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	here, there := net.Pipe()
	conn := k.Conn(here)
	_, err = conn.Read(make([]byte, 1))
	fmt.Println(errors.Is(err, keepalive.ErrIdleTimeout))
	_, err = there.Read(make([]byte, 1))
	fmt.Println(errors.Is(err, io.EOF))
	// Output:
	// true
	// true
}

// Only whole messages are life: a trickle of bytes does not keep a connection.
func ExampleTouch() {
	k, err := keepalive.New(keepalive.Config{
		Timeout:  30 * time.Second,
		Activity: keepalive.ActivityManual,
		OnClose: func(_ any, reason keepalive.Reason) {
			fmt.Println("closed:", reason.String())
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	here, there := net.Pipe()
	go func() {
		fmt.Fprintln(there, "hello")
		there.Close()
	}()

	conn := k.Conn(here)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		keepalive.Touch(conn)
		fmt.Println(lines.Text())
	}
	conn.Close()
	// Output:
	// hello
	// closed: peer
}

// What an MQTT broker needs: a CONNECT in time, a keepalive that the client has asked
// for, and no more than so many connections of one address.
func ExampleGuard_SetInterval() {
	k, err := keepalive.New(keepalive.Config{
		Activity:     keepalive.ActivityManual,
		Timeout:      time.Minute,
		FirstMessage: 5 * time.Second,
		Interval:     keepalive.Interval{Max: time.Hour},
		Room:         keepalive.Room{MaxPerKey: 100},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	here, _ := net.Pipe()
	conn := k.Conn(here)
	asked := uint16(50_000) // the keep alive of the CONNECT, in seconds
	inForce, err := keepalive.Of(conn).SetInterval(time.Duration(asked) * time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(inForce)
	// Output:
	// 1h0m0s
}

// A ping before the end, an age, and last words.
func ExampleConfig_probe() {
	k, err := keepalive.New(keepalive.Config{
		Timeout: time.Minute,
		Probe: keepalive.Probing{
			After:   30 * time.Second,
			Timeout: 10 * time.Second,
			Count:   3,
			Send: func(conn any) error {
				_, err := conn.(net.Conn).Write([]byte("PING\n"))
				return err
			},
		},
		Age: keepalive.Age{
			Max:   24 * time.Hour,
			Grace: time.Minute,
			OnMax: func(conn any) { _, _ = conn.(net.Conn).Write([]byte("GOAWAY\n")) },
		},
		Closing: keepalive.Closing{
			MaxPerSecond: 1000,
			Farewell: func(_ any, reason keepalive.Reason) []byte {
				return fmt.Appendf(nil, "BYE %v\n", reason.String())
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
}

// Work that takes longer than the timeout is no silence.
func ExampleGuard_Hold() {
	k, err := keepalive.New(keepalive.Config{Timeout: 2 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	here, _ := net.Pipe()
	conn := k.Conn(here)

	release := keepalive.Of(conn).Hold()
	time.Sleep(3 * time.Second) // a query, say
	fmt.Println(k.Len(), "connection")
	release()

	ctx := keepalive.Of(conn).Context()
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))
	// Output:
	// 1 connection
	// keepalive: idle timeout
}

// What the timeout should be: a week without closing anybody.
func ExampleConfig_advise() {
	k, err := keepalive.New(keepalive.Config{Timeout: time.Minute, Advise: true, Closing: keepalive.Closing{DryRun: true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	stats := k.Stats()
	for _, silence := range stats.Silences[3:] {
		fmt.Printf("%v would have closed %d\n", silence.Length, silence.Count)
	}
	fmt.Println(stats.NearMisses, "nearly")
	// Output:
	// 30s would have closed 0
	// 37.5s would have closed 0
	// 45s would have closed 0
	// 48s would have closed 0
	// 52.5s would have closed 0
	// 1m0s would have closed 0
	// 1m15s would have closed 0
	// 1m30s would have closed 0
	// 1m45s would have closed 0
	// 2m0s would have closed 0
	// 0 nearly
}

// All connections closed over half a minute, so that their clients come back one
// after the other.
func ExampleKeeper_Drain() {
	// "bye: drain" here, and "bye: idle" after a silence.
	bye := func(_ any, why keepalive.Reason) []byte { return []byte("bye: " + why.String() + "\n") }
	cfg := keepalive.Config{Timeout: time.Minute, Closing: keepalive.Closing{Farewell: bye}}

	k, err := keepalive.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := k.Drain(ctx, 30*time.Second); err != nil {
		fmt.Println(err) // names how many are left
	}
	fmt.Println(k.Len())
	// Output:
	// 0
}

// When memory runs short, silent connections have to go sooner.
func ExampleConfig_pressure() {
	limit := float64(debug.SetMemoryLimit(-1))
	k, err := keepalive.New(keepalive.Config{
		Timeout: 5 * time.Minute,
		Room: keepalive.Room{
			MaxConns: 100_000,
			Full:     keepalive.FullEvict,
			MinIdle:  10 * time.Second,
			Pressure: keepalive.Pressure{Timeout: 30 * time.Second, Used: func() float64 {
				sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
				metrics.Read(sample)
				return float64(sample[0].Value.Uint64()) / limit
			}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
}

// A policy of the program's own: the average round trip of a connection is above a limit for too long. The program has no other
// use for the Value of a connection.
func slowRoundTrip(limit, during time.Duration) keepalive.Check {
	return keepalive.Check{
		Name:  "slow_round_trip",
		Every: during / 10,
		Inspect: func(g *keepalive.Guard, info keepalive.Info) (time.Duration, keepalive.Verdict) {
			since, _ := g.Value().(time.Duration) // its age when the average rose above the limit
			switch {
			case info.MeanRoundTrip <= limit:
				g.SetValue(nil)
			case since == 0:
				g.SetValue(info.Age)
			case info.Age-since >= during:
				return 0, keepalive.Close
			}
			return 0, keepalive.Ignore
		},
	}
}

// A client that takes 150 ms to answer a ping.
func ExampleCheck() {
	k, err := keepalive.New(keepalive.Config{
		Timeout: time.Minute,
		Checks:  []keepalive.Check{slowRoundTrip(100*time.Millisecond, 500*time.Millisecond)},
		Probe: keepalive.Probing{After: 50 * time.Millisecond, Timeout: 30 * time.Second, Send: func(conn any) error {
			_, err := conn.(net.Conn).Write([]byte("PING\n"))
			return err
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ln.Close()

	go func() {
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return
		}
		defer client.Close()
		for pings := bufio.NewScanner(client); pings.Scan(); {
			time.Sleep(150 * time.Millisecond)
			_, _ = client.Write([]byte("PONG\n"))
		}
	}()

	conn, err := k.Listener(ln).Accept()
	if err != nil {
		fmt.Println(err)
		return
	}
	pongs := bufio.NewScanner(conn)
	for pongs.Scan() {
		keepalive.Of(conn).Pong()
	}
	fmt.Println(errors.Is(pongs.Err(), keepalive.CheckReason("slow_round_trip")))
	// Output:
	// true
}
