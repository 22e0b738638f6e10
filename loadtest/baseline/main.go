// Command baseline is what an echo-heartbeat server is compared with: the same
// protocol, less what the comparison is about.
//
//	baseline -kind gnet                  # on gnet, closes nobody
//	baseline -kind net -timeout 30s      # a goroutine per connection, a read deadline before each read
//
// loadtest -baseline starts it. SIGTERM ends it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	kind := flag.String("kind", "", "`gnet|net`")
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on, `host:port`")
	timeout := flag.Duration("timeout", 30*time.Second, "read deadline of kind net")
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// As an echo-heartbeat server says it.
	listening := func(addr net.Addr) { log.Info("server: listening", "addr", addr.String()) }

	var err error
	switch *kind {
	case "gnet":
		err = serveGnet(ctx, *addr, listening)
	case "net":
		err = serveNet(ctx, *addr, *timeout, listening)
	default:
		err = fmt.Errorf("invalid value %q for flag -kind: must be gnet or net", *kind)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "baseline:", err)
		os.Exit(1)
	}
}
