package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/protocol"
)

// serveNet is what most people write: a goroutine per connection, with a buffered
// reader, and a deadline before each read.
func serveNet(ctx context.Context, addr string, timeout time.Duration, listening func(net.Addr)) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = ln.Close() })
	listening(ln.Addr())
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go serveConn(conn, timeout)
	}
}

func serveConn(conn net.Conn, timeout time.Duration) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	var out []byte
	for {
		_ = conn.SetReadDeadline(time.Now().Add(timeout))
		whole, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		line := bytes.TrimSuffix(whole[:len(whole)-1], []byte("\r"))
		var last bool
		out, last = protocol.Answer(out[:0], line, whole[len(line):])
		if len(out) > 0 {
			if _, err := conn.Write(out); err != nil {
				return
			}
		}
		if last {
			return
		}
	}
}
