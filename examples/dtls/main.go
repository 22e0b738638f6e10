// Command dtls echoes lines over DTLS, with the library of pion.
//
// The library makes a net.Conn of each peer, so its listener is wrapped like any other: k.Listener. These
// connections have no sockets of their own, and the Keeper can't ask for unread bytes. So a handler holds
// its connection during long work, see keepalive.Guard.Hold.
//
// The handshake has a cookie, but a peer has its place among MaxConns before that. So spoofed addresses can take all
// places, each for FirstMessage.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/pion/dtls/v3"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9003", "address of UDP to listen on, `host:port`; port 0 is any free one")
	timeout := flag.Duration("timeout", 30*time.Second, "how long a connection may be silent")
	cert := flag.String("cert", "cert.pem", "`file` with the certificate")
	key := flag.String("key", "key.pem", "`file` with its key")
	flag.Parse()
	switch {
	case *timeout <= 0:
		log.Fatalf("-timeout %v: must be positive", *timeout)
	case flag.NArg() > 0:
		log.Fatalf("unexpected argument %q: there are only flags", flag.Arg(0))
	}
	certificate, err := tls.LoadX509KeyPair(*cert, *key)
	if err != nil {
		log.Fatalf("-cert and -key: %v", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, *addr, *timeout, slog.Default(), certificate); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger, certificate tls.Certificate) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:      timeout,
		FirstMessage: min(5*time.Second, timeout), // with the handshake
		Activity:     keepalive.ActivityManual,    // whole lines
		Room:         keepalive.Room{MaxConns: 10_000, MaxPerKey: 100},
		Closing: keepalive.Closing{Farewell: func(_ any, reason keepalive.Reason) []byte {
			return fmt.Appendf(nil, "BYE %v\n", reason.String())
		}},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	local, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	// With connection ids a peer stays the same one when its address changes.
	inner, err := dtls.ListenWithOptions("udp", local, dtls.WithCertificates(certificate),
		dtls.WithConnectionIDGenerator(dtls.RandomCIDGenerator(8)))
	if err != nil {
		return err
	}
	logger.Info("listening", "addr", inner.Addr())
	ln := k.Listener(inner)
	context.AfterFunc(ctx, func() { ln.Close() })

	var running sync.WaitGroup
	defer running.Wait()
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			running.Go(func() {
				err := echo(conn)
				logger.Debug("ended", "remote", conn.RemoteAddr(), "error", err)
			})
		case ctx.Err() != nil:
			patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return k.Drain(patience, 0)
		default:
			logger.Warn("not accepted", "error", err)
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
