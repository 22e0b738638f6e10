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
	"net"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() {
	above := flag.Bool("above", false, "guard what has been decrypted, and say goodbye")
	example.Main("127.0.0.1:8443", func(ctx context.Context, args example.Args) error {
		return serve(ctx, args, *above)
	})
}

func serve(ctx context.Context, args example.Args, above bool) error {
	cfg := keepalive.Config{
		Timeout:      args.Timeout,
		FirstMessage: min(5*time.Second, args.Timeout), // with the handshake
		Activity:     keepalive.ActivityManual,         // whole lines
		Room:         keepalive.Room{MaxPerKey: 1000},
		Logger:       args.Log,
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

	certificate, err := example.Certificate()
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", args.Addr)
	if err != nil {
		return err
	}
	args.Listening(ln.Addr())
	context.AfterFunc(ctx, func() { ln.Close() })
	ln = wrap(ln, k, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, above)

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
			args.Log.Warn("not accepted", "error", err) // no descriptor left, say
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
