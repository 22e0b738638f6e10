package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a tool until it returns or is interrupted. With an error the process exits with 1.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
