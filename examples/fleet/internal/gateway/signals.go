package gateway

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilSignal returns a context for main. It is done on SIGINT, on SIGTERM, or on SIGHUP from
// a closing terminal, unless nohup ignores SIGHUP. A second signal ends the process at once.
func UntilSignal() context.Context {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx
}
