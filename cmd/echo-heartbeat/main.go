// Command echo-heartbeat is a TCP server. It echoes lines and closes silent connections. See
// package server for its protocol: a person can speak it with nc.
//
//	echo-heartbeat -addr 127.0.0.1:9000 -timeout 30s
//
// Settings can also be in a file (-config). SIGHUP reads it again, and changes hold for open
// connections, too. A file with an error changes nothing. The environment wins over the file,
// and flags over both.
//
// With -admin there is a second address, with /healthz, /readyz and other pages; / lists them.
// systemd may pass the sockets of both (one has the name "admin"). The program tells systemd
// when it is ready, reloads and stops, and feeds its watchdog as long as the event loops and
// the wheel make progress.
//
// "echo-heartbeat completion bash" (or zsh, or fish) prints completions for that shell, and "echo-heartbeat man" a page of
// the manual.
//
// SIGINT and SIGTERM end it gracefully: for -drain-delay it is only not ready; then each
// connection gets a farewell, spread over -drain. A second signal ends it at once. The exit
// code is 2, with one line, for impossible flags, and 1 for a later error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if newOptions().Shell(os.Stdout, os.Args[1:], "a TCP server that closes silent connections") {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		signal.Stop(signals) // a second one ends the process at once
		if len(signals) > 0 {
			os.Exit(exitFailure) // and so does an even earlier one
		}
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

const (
	exitFailure = 1
	exitUsage   = 2
)

func run(ctx context.Context, args []string, stderr io.Writer) (exit int) {
	complain := func(err error) int {
		fmt.Fprintf(stderr, "echo-heartbeat: %v\n", err)
		return exitUsage
	}
	o, err := read(args, os.LookupEnv)
	if err == nil {
		err = o.CheckNames(os.Environ())
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(stderr)
		return 0
	case err != nil:
		return complain(err)
	case o.check:
		_, _ = raiseLimit(o.server.Room.MaxConns) // Validate says if it is not enough
		if err := o.explain(o.server.Validate()); err != nil {
			return complain(err)
		}
		fmt.Fprintln(stderr, "echo-heartbeat: this makes sense")
		return 0
	}
	p := newProgram(args, o, stderr)
	err = p.run(ctx)
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return complain(usage.error)
	case err != nil:
		p.log.Error("stopped", "error", err)
		return exitFailure
	}
	p.log.Info("stopped")
	return 0
}

// usageError is the fault of flags, or of the config file.
type usageError struct{ error }
