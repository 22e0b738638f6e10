package heartbeat_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/heartbeat"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// echo answers each line of a connection by itself, and PING by PONG.
func echo(conn net.Conn) {
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		fmt.Fprintln(conn, strings.Replace(lines.Text(), "PING", "PONG", 1))
	}
}

// A client of a server with a timeout of 30s.
func Example() {
	conn, there := net.Pipe()
	go echo(there)

	c, err := heartbeat.Start(conn, heartbeat.Options{
		Timeout: 30 * time.Second, // the server's
		Message: []byte("PING\n"),
		Answer:  heartbeat.AnswerRead, // any byte is a sign of life
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	fmt.Fprintln(c, "hello") // c, not conn: this makes a beat unnecessary
	line, err := bufio.NewReader(c).ReadString('\n')
	if errors.Is(err, heartbeat.ErrNoAnswer) {
		fmt.Println("the server has gone")
	}
	fmt.Print(line)
	// Output:
	// hello
}

// Counting answers and their round trips.
func ExampleConn_Ack() {
	conn, there := net.Pipe()
	go echo(there)
	b, err := heartbeat.New(heartbeat.Config{Tick: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()

	c, err := b.Start(conn, heartbeat.Options{
		Interval:   2 * time.Second,
		Message:    []byte("PING\n"),
		Answer:     heartbeat.AnswerAck,
		AckTimeout: 2 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	for lines := bufio.NewScanner(c); lines.Scan(); {
		if lines.Text() == "PONG" {
			roundTrip, _ := c.Ack()
			fmt.Println(roundTrip > 0, roundTrip == c.RoundTrip())
			break
		}
	}
	// Output:
	// true true
}

// A server without answers.
func ExampleRun() {
	conn, there := net.Pipe()
	go io.Copy(io.Discard, there)

	c := heartbeat.Wrap(conn)
	go io.Copy(io.Discard, c) // what reads
	err := heartbeat.Run(context.Background(), c, heartbeat.Options{
		Timeout:    3 * time.Second,
		Message:    []byte("PING\n"),
		Answer:     heartbeat.AnswerRead,
		AckTimeout: time.Second,
	})
	var timeout net.Error
	fmt.Println(errors.As(err, &timeout) && timeout.Timeout(), err)
	// Output:
	// true heartbeat: no answer to a beat within 1s
}

// A client connects again after each end, unless the error says that this is pointless.
func ExampleReconnect() {
	dial := func(context.Context) (net.Conn, error) {
		conn, there := net.Pipe()
		go fmt.Fprintln(there, "ERR too many heartbeats")
		return conn, nil
	}
	opts := heartbeat.Options{Timeout: 30 * time.Second, Message: []byte("BEAT\n")}

	sessions := 0
	session := func(_ context.Context, conn net.Conn) error {
		c, err := heartbeat.Start(conn, opts)
		if err != nil {
			return err
		}
		defer c.Close()
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if lines.Text() != "ERR too many heartbeats" {
				continue
			}
			if sessions++; sessions == 3 {
				return keepalive.ReasonTooMany // its Retryable is false
			}
			opts.Interval = c.TooMany() // slower from now on
			return errors.New("too many heartbeats")
		}
		return c.Err()
	}
	err := heartbeat.Reconnect(context.Background(), heartbeat.Backoff{
		First: 10 * time.Millisecond,
		Max:   time.Minute,
		OnWait: func(err error, wait time.Duration) {
			fmt.Println(err, wait <= 20*time.Millisecond)
		},
	}, dial, session)
	fmt.Println(err)
	fmt.Println(opts.Interval)
	// Output:
	// too many heartbeats true
	// too many heartbeats true
	// keepalive: too many heartbeats
	// 22.5s
}

// A protocol whose messages take several writes: a beat waits until one is complete.
func ExampleOptions_beat() {
	conn, there := net.Pipe()
	go io.Copy(io.Discard, there)
	var writing sync.Mutex // for all of a message

	c, err := heartbeat.Start(conn, heartbeat.Options{
		Timeout: 30 * time.Second,
		Beat: func(conn net.Conn) error {
			writing.Lock()
			defer writing.Unlock()
			_, err := conn.Write([]byte{0xC0, 0x00}) // PINGREQ of MQTT
			return err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(c.Interval() <= 10*time.Second, c.Err())
	// Output:
	// true <nil>
}
