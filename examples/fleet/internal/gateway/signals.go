package gateway

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilSignal returns a context for main that is done when the process is told to end: by SIGINT,
// SIGTERM, or SIGHUP when its terminal is gone, unless nohup was to keep that away. A second signal
// ends the process at once.
func UntilSignal() context.Context {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx
}
