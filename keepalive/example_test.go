package keepalive_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/pool"
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
	go func() { _ = http.Serve(ln, nil) }()

	ln.Close()
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
func ExampleKeeper_SetInterval() {
	k, err := keepalive.New(keepalive.Config{
		Activity:     keepalive.ActivityManual, // whole packets
		Timeout:      time.Minute,              // for clients that don't say
		FirstMessage: 5 * time.Second,
		MaxTimeout:   time.Hour,
		MaxPerKey:    100,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	here, _ := net.Pipe()
	conn := k.Conn(here)
	asked := uint16(50_000) // the keep alive of the CONNECT, in seconds
	inForce, err := k.SetInterval(conn, time.Duration(asked)*time.Second)
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
		Timeout:      time.Minute,
		ProbeAfter:   30 * time.Second,
		ProbeTimeout: 10 * time.Second,
		ProbeCount:   3,
		Probe: func(conn any) error {
			_, err := conn.(net.Conn).Write([]byte("PING\n"))
			return err
		},
		MaxAge:            24 * time.Hour,
		MaxAgeGrace:       time.Minute,
		OnMaxAge:          func(conn any) { _, _ = conn.(net.Conn).Write([]byte("GOAWAY\n")) },
		MaxClosePerSecond: 1000,
		Farewell: func(_ any, reason keepalive.Reason) []byte {
			return fmt.Appendf(nil, "BYE %v\n", reason.String())
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
}

// Work that takes longer than the timeout is no silence.
func ExampleKeeper_Hold() {
	k, err := keepalive.New(keepalive.Config{Timeout: 2 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	here, _ := net.Pipe()
	conn := k.Conn(here)

	release := k.Hold(conn)
	time.Sleep(3 * time.Second) // a query, say
	fmt.Println(k.Len(), "connection")
	release()

	ctx := k.Context(conn)
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))
	// Output:
	// 1 connection
	// keepalive: idle timeout
}

// What the timeout should be: a week without closing anybody.
func ExampleKeeper_Advice() {
	k, err := keepalive.New(keepalive.Config{Timeout: time.Minute, Advise: true, DryRun: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	advice := k.Advice()
	for _, share := range []float64{0.5, 0.75, 1, 1.5, 2} {
		timeout := time.Duration(share * float64(advice.Timeout))
		fmt.Printf("%v would have closed %d\n", timeout, advice.WouldClose(share))
	}
	fmt.Println(advice.NearMisses, "nearly")
	// Output:
	// 30s would have closed 0
	// 45s would have closed 0
	// 1m0s would have closed 0
	// 1m30s would have closed 0
	// 2m0s would have closed 0
	// 0 nearly
}

// All connections closed over half a minute, so that their clients come back one
// after the other.
func ExampleKeeper_Drain() {
	k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
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
		Timeout:         5 * time.Minute,
		PressureTimeout: 30 * time.Second,
		Pressure: func() float64 {
			sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
			metrics.Read(sample)
			return float64(sample[0].Value.Uint64()) / limit
		},
		MaxConns:     100_000,
		Full:         pool.EvictIdlest,
		EvictMinIdle: 10 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
}
