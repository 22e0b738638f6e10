// Package example has flags, a log and signals for examples that are more than one file to copy.
package example

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Args are an example's settings.
type Args struct {
	Addr    string        // host:port to listen on; port 0 is any free one
	Timeout time.Duration // how long a connection may be silent
	Log     *slog.Logger
}

// Listening logs the example's address. Each example calls it once.
func (a Args) Listening(addr any) { a.Log.Info("listening", "addr", fmt.Sprint(addr)) }

// Closed logs why a connection has ended: because of its silence, for another reason of the
// Keeper's, or because of its peer. err is the error of the last Read or Write, or nil.
func (a Args) Closed(remote any, err error) {
	log := a.Log.With("remote", fmt.Sprint(remote))
	var reason keepalive.Reason
	switch {
	case errors.Is(err, keepalive.ErrIdleTimeout):
		log.Info("it was silent")
	case errors.As(err, &reason) && reason != keepalive.ReasonPeer:
		log.Info("it was closed", "reason", reason.String())
	default:
		log.Info("it has left", "error", err)
	}
}

// Main reads the flags and calls serve, until SIGINT or SIGTERM ends its context. An example
// must define its own flags before.
func Main(addr string, serve func(context.Context, Args) error) {
	args := Args{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	flag.StringVar(&args.Addr, "addr", addr, "address to listen on, `host:port`; port 0 is any free one")
	flag.DurationVar(&args.Timeout, "timeout", 30*time.Second, "how long a connection may be silent")
	flag.Parse()
	if err := args.check(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, args); err != nil {
		args.Log.Error("stopped", "error", err)
		os.Exit(1)
	}
}

func (a Args) check(rest []string) error {
	if err := stray(rest); err != nil {
		return err
	}
	if a.Timeout < 10*time.Millisecond {
		return fmt.Errorf("invalid value %v for flag -timeout: must be at least 10ms", a.Timeout)
	}
	return nil
}
