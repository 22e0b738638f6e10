// Command dtls echoes lines over DTLS, with the library of pion.
//
// The library makes a net.Conn of each peer, so its listener is wrapped like any other: k.Listener. These
// connections have no sockets of their own, and the Keeper can't ask for unread bytes. So a handler holds
// its connection during long work, see keepalive.Guard.Hold. The handshake has a cookie.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pion/dtls/v3"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() { example.Main("127.0.0.1:9003", serve) }

func serve(ctx context.Context, args example.Args) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:      args.Timeout,
		FirstMessage: min(5*time.Second, args.Timeout), // with the handshake
		Activity:     keepalive.ActivityManual,         // whole lines
		Room:         keepalive.Room{MaxConns: 10_000, MaxPerKey: 100},
		Closing: keepalive.Closing{Farewell: func(_ any, reason keepalive.Reason) []byte {
			return fmt.Appendf(nil, "BYE %v\n", reason.String())
		}},
		Logger: args.Log,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	certificate, err := example.Certificate()
	if err != nil {
		return err
	}
	addr, err := net.ResolveUDPAddr("udp", args.Addr)
	if err != nil {
		return err
	}
	inner, err := dtls.ListenWithOptions("udp", addr, dtls.WithCertificates(certificate))
	if err != nil {
		return err
	}
	args.Listening(inner.Addr())
	ln := k.Listener(inner)
	context.AfterFunc(ctx, func() { ln.Close() })

	var running sync.WaitGroup
	defer running.Wait()
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			running.Go(func() { args.Closed(conn.RemoteAddr(), echo(conn)) })
		case ctx.Err() != nil:
			patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return k.Drain(patience, 0)
		default:
			args.Log.Warn("not accepted", "error", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// echo returns why the connection has ended.
func echo(conn net.Conn) error {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10) // a Read of a record needs room for all of it
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		keepalive.Touch(conn)
		if _, err := conn.Write(line); err != nil {
			return err
		}
	}
}
