// Command tls echoes lines over TLS. It can wrap the two listeners either way round.
//
//	tls.NewListener(k.Listener(ln), config)   // the right way
//	k.Listener(tls.NewListener(ln, config))   // -above: only for protocols of your own
//
// Below TLS, net/http and all others see the *tls.Conn they look for. Touch, Hold and the rest
// take it as well as the connection inside. But a farewell would be plaintext in the middle of
// TLS. And if the Keeper closes a connection, it ends without TLS's own goodbye, close_notify.
//
// Above TLS, a farewell is encrypted like all else, and close_notify comes after it. But
// Accept returns no *tls.Conn any more. With net/http, a client may offer HTTP/2. If
// NextProtos has it, the client gets HTTP/2, and then an answer in HTTP/1.1. Otherwise there
// is no HTTP/2. Either way Request.TLS is nil. The Keeper logs a warning.
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

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8443", "address to listen on, `host:port`; port 0 is any free one")
	timeout := flag.Duration("timeout", 30*time.Second, "how long a connection may be silent")
	cert := flag.String("cert", "cert.pem", "`file` with the certificate")
	key := flag.String("key", "key.pem", "`file` with its key")
	above := flag.Bool("above", false, "guard what has been decrypted, and say goodbye")
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
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, *addr, *timeout, slog.Default(), config, *above); err != nil {
		log.Fatal(err)
	}
}

// serve guards below TLS, or above.
func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger, config *tls.Config, above bool) error {
	cfg := keepalive.Config{
		Timeout:      timeout,
		FirstMessage: min(5*time.Second, timeout), // with the handshake
		Activity:     keepalive.ActivityManual,    // whole lines
		Room:         keepalive.Room{MaxPerKey: 1000},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	}
	if above {
		cfg.Closing.Farewell = func(_ any, reason keepalive.Reason) []byte {
			return fmt.Appendf(nil, "BYE %v\n", reason.String())
		}
	}
	k, err := keepalive.New(cfg)
	if err != nil {
		return err
	}
	defer k.Close()

	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	logger.Info("listening", "addr", ln.Addr())
	ln = wrap(ln, k, config, above)
	context.AfterFunc(ctx, func() { ln.Close() })

	var running sync.WaitGroup
	defer running.Wait()
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			running.Go(func() {
				if err := echo(conn); err != nil {
					logger.Debug("ended", "remote", conn.RemoteAddr(), "error", err)
				}
			})
		case ctx.Err() != nil:
			patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return k.Drain(patience, 0)
		default:
			logger.Warn("not accepted", "error", err) // no descriptor left, say
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func wrap(ln net.Listener, k *keepalive.Keeper, config *tls.Config, above bool) net.Listener {
	if above {
		return k.Listener(tls.NewListener(ln, config))
	}
	return tls.NewListener(k.Listener(ln), config)
}

// echo returns why the connection has ended. Touch takes it either way round.
func echo(conn net.Conn) error {
	defer conn.Close()
	in := bufio.NewScanner(conn) // the first Read does the handshake
	for in.Scan() {
		keepalive.Touch(conn)
		if _, err := fmt.Fprintln(conn, in.Text()); err != nil {
			return err
		}
	}
	return in.Err()
}
