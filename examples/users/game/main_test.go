package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

const timeout = 2 * time.Second // such as a client keeps on a busy machine

func TestMain(m *testing.M) { testmain.Run(m) }

func TestASilentPlayerLeavesTheGame(t *testing.T) {
	var logged logtest.Log
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	ctx, stop := context.WithCancel(context.Background())
	addr, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, "127.0.0.1:0", timeout, func(a net.Addr) { addr <- a }) }()
	server := (<-addr).String()

	ann, bob := join(t, server, "ann"), join(t, server, "bob")
	bob.until(t, "ann 0, bob 0")
	join(t, server, "ann").until(t, "bye: full")
	began := time.Now()
	for time.Since(began) < 3*timeout { // to and fro
		fmt.Fprintln(ann, "n")
		time.Sleep(timeout / 20)
		fmt.Fprintln(ann, "e")
		time.Sleep(timeout / 20)
	}
	fmt.Fprintln(ann, "n")
	bob.until(t, "your move?")
	bob.until(t, "bye: no_answer")
	require.GreaterOrEqual(t, bob.heard.Sub(bob.said), timeout)
	go func() { // a player who moves on
		for ctx := t.Context(); ctx.Err() == nil; time.Sleep(time.Millisecond) {
			_, _ = fmt.Fprintln(ann, "n")
		}
	}()
	stop()
	ann.until(t, "bye: drain")
	require.NoError(t, <-ended)
	logged.Await(t, "bob has left: keepalive: no answer to probes")
}

type client struct {
	net.Conn
	lines       *bufio.Scanner
	said, heard time.Time
}

func join(t *testing.T, addr, name string) *client {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	c := &client{Conn: conn, lines: bufio.NewScanner(conn), said: time.Now()}
	fmt.Fprintln(c, "name "+name)
	return c
}

func (c *client) until(t *testing.T, text string) {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	for c.lines.Scan() {
		c.heard = time.Now()
		if strings.Contains(c.lines.Text(), text) {
			return
		}
	}
	require.FailNow(t, "never heard", "%q: %v", text, c.lines.Err())
}
