// Command demo serves the debug page of a server with many busy connections, to be
// looked at.
//
//	go run ./demo -addr 127.0.0.1:9001 -conns 2400
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/internal/browsertest"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9001", "address of the page, `host:port`")
	conns := flag.Int("conns", 2400, "number of connections")
	probes := flag.Duration("probes", 40*time.Second, "when probes begin")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *conns, *probes); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string, conns int, probes time.Duration) error {
	load, err := browsertest.Start(conns, 1)
	if err != nil {
		return err
	}
	defer load.Close()
	page, err := debughttp.New(load.Keeper, debughttp.Config{Name: "gateway-1"})
	if err != nil {
		return err
	}
	defer page.Close()
	defer time.AfterFunc(probes, func() {
		if err := load.Keeper.Update(browsertest.Probing(conns, 1)); err != nil {
			fmt.Fprintln(os.Stderr, "demo:", err)
		}
	}).Stop()

	s := &http.Server{Addr: addr, Handler: page, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { s.Close() })
	fmt.Printf("http://%s/\n", addr)
	if err := s.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}
