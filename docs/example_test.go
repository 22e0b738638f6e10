// Package docs_test has what the pages of docs/ show and no package's examples have.
package docs_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/udpkeepalive"
	"github.com/heartwheel-go/heartwheel/wheel"
)

func Example_firstLines() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
	ln = k.Listener(ln)                                // any net.Listener; put TLS around the result
	conn, err := ln.Accept()                           // a net.Conn with a timeout
	n, err := io.Copy(conn, conn)                      // your protocol: what the peer sends keeps the connection
	silent := errors.Is(err, keepalive.ErrIdleTimeout) // after 30 seconds without a byte
	fmt.Println(n, silent)
}

func Example_quickStart() {
	k, err := keepalive.New(keepalive.Config{Timeout: 2 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:9000")
	if err != nil {
		log.Fatal(err)
	}
	err = serve(k, ln)
	fmt.Println(err)
}

func serve(k *keepalive.Keeper, ln net.Listener) error {
	ln = k.Listener(ln)
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_, err := io.Copy(conn, conn) // echo
			fmt.Println(err)
		}()
	}
}

// countedConn hides the connection inside.
type countedConn struct{ net.Conn }

func Example_unwrap() {
	k, err := keepalive.New(keepalive.Config{Unwrap: func(conn net.Conn) net.Conn {
		if c, ok := conn.(*countedConn); ok { // as cmux.MuxConn
			return c.Conn
		}
		return nil // not known
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	conn, _ := net.Pipe()
	fmt.Println(keepalive.Touch(k.Conn(&countedConn{conn})))
	// Output: true
}

func Example_orderOfTLS() {
	k, err := keepalive.New(keepalive.Config{})
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
	certs := &tls.Config{}
	ln = k.Listener(ln)             // knows the socket
	ln = tls.NewListener(ln, certs) // net/http and HTTP/2 see a *tls.Conn
	ln.Close()
}

func Example_timingWheel() {
	expire := func(key string, value int) { fmt.Println(key, value) }
	tw, err := wheel.NewTimingWheel(time.Second, 300, func(key string, value int) {
		expire(key, value)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tw.Stop()
}

// sessions is a user's type, with a timeout of an hour.
type sessions struct {
	timers *wheel.TimingWheel[string, int]
}

func newSessions(ended func(name string, user int)) (*sessions, error) {
	timers, err := wheel.NewTimingWheel(time.Minute, 60, ended)
	return &sessions{timers}, err
}

func (s *sessions) heard(name string, user int) error {
	return s.timers.SetTimer(name, user, time.Hour)
}

func TestASessionEndsAnHourAfterItsLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan string, 1)
		s, err := newSessions(func(name string, _ int) { ended <- name })
		if err != nil {
			t.Fatal(err)
		}
		defer s.timers.Stop() // or the bubble waits for the wheel
		_ = s.heard("s1", 7)
		time.Sleep(59 * time.Minute) // takes no time
		_ = s.heard("s1", 7)
		last := time.Now()
		<-ended
		if d := time.Since(last); d < time.Hour || d > time.Hour+2*time.Minute {
			t.Errorf("ended after %v", d)
		}
	})
}

func handle(line string) { fmt.Println(line) }

// With a deadline before each read.
func before(conn net.Conn) error {
	reader := bufio.NewReader(conn)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		line, err := reader.ReadString('\n')
		if err != nil {
			return err
		}
		handle(line)
	}
}

// With a listener that is wrapped.
func after(conn net.Conn) error {
	reader := bufio.NewReader(conn)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return err
		}
		keepalive.Touch(conn) // with ActivityManual: whole lines
		handle(line)
	}
}

func beforeWithATimer(conn net.Conn, timeout time.Duration) {
	scanner := bufio.NewScanner(conn)
	timer := time.AfterFunc(timeout, func() { conn.Close() })
	defer timer.Stop()
	for scanner.Scan() {
		timer.Reset(timeout)
		handle(scanner.Text())
	}
}

func afterWithATimer(conn net.Conn) {
	scanner := bufio.NewScanner(conn)
	for scanner.Scan() {
		keepalive.Touch(conn)
		handle(scanner.Text())
	}
}

func Example_migrating() {
	k, err := keepalive.New(keepalive.Config{Activity: keepalive.ActivityManual})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	for _, serve := range []func(net.Conn){
		func(c net.Conn) { _ = before(c) },
		func(c net.Conn) { _ = after(k.Conn(c)) },
		func(c net.Conn) { beforeWithATimer(c, 30*time.Second) },
		func(c net.Conn) { afterWithATimer(k.Conn(c)) },
	} {
		here, there := net.Pipe()
		go func() {
			fmt.Fprintln(there, "hello")
			there.Close()
		}()
		serve(here)
	}
	// Output:
	// hello
	//
	// hello
	//
	// hello
	// hello
}

type player struct{ moves int }

type game struct{ gnet.BuiltinEventEngine }

func (*game) OnTraffic(c gnet.Conn) gnet.Action {
	session := c.SafeContext().(*udpkeepalive.Session[player])
	session.Value.moves++
	return gnet.None
}

func Example_udpOnGnet() {
	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()
	err = gnet.Run(gnetkeepalive.WrapUDP[player](&game{}, k), "udp://:9000", gnet.WithMulticore(true))
	fmt.Println(err)
}
