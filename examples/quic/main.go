// Command quic echoes lines on the streams of QUIC connections, with quic-go.
//
// QUIC has an idle timeout itself, negotiated in the handshake: quic.Config.MaxIdleTimeout. It is
// right for vanished machines and closed laptops. A Keeper has nothing to add there: it guards
// connections of package net, and a QUIC server has one UDP socket for all of its connections.
//
// But the packets of QUIC's keep alive are life for QUIC. They come from the client's library, so a
// hanging program stays. Here whole lines are life, on any stream of a connection. Each connection has
// a timer of one wheel, and a line moves it in some nanoseconds. For some hundred connections,
// time.AfterFunc and Reset do the same.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// The codes of this protocol in CONNECTION_CLOSE.
const (
	stopping quic.ApplicationErrorCode = 1
	silent   quic.ApplicationErrorCode = 2
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8444", "address of UDP to listen on, `host:port`; port 0 is any free one")
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
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"lines"}, MinVersion: tls.VersionTLS13}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, *addr, *timeout, slog.Default(), config); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger, config *tls.Config) error {
	w, err := wheel.New(wheel.Config{Tick: max(time.Millisecond, min(100*time.Millisecond, timeout/10))})
	if err != nil {
		return err
	}
	defer w.Stop()
	ln, err := quic.ListenAddr(addr, config, &quic.Config{
		MaxIdleTimeout: max(30*time.Second, 2*timeout), // without any packet: the machine has vanished
	})
	if err != nil {
		return err
	}
	logger.Info("listening", "addr", ln.Addr())

	var running sync.WaitGroup
	defer running.Wait()
	defer ln.Close()
	for {
		conn, err := ln.Accept(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		timer := w.AfterFunc(timeout, func() { _ = conn.CloseWithError(silent, "silent") })
		leave := context.AfterFunc(ctx, func() { _ = conn.CloseWithError(stopping, "stopping") })
		running.Go(func() {
			err := converse(conn, timer)
			timer.Remove()
			leave()
			logger.Info("closed", "remote", conn.RemoteAddr(), "error", err)
		})
	}
}

// converse returns why the connection has ended.
func converse(conn *quic.Conn, timer *wheel.Timer) error {
	var streams sync.WaitGroup
	defer streams.Wait()
	for {
		stream, err := conn.AcceptStream(conn.Context())
		if err != nil {
			return err
		}
		streams.Go(func() {
			defer stream.Close()
			for in := bufio.NewScanner(stream); in.Scan(); {
				timer.Touch()
				if _, err := fmt.Fprintln(stream, in.Text()); err != nil {
					return
				}
			}
		})
	}
}
