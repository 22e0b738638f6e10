package keepalive_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
