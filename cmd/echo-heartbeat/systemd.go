package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/heartwheel-go/heartwheel/internal/sdnotify"
	"github.com/heartwheel-go/heartwheel/server"
)

const (
	// adminName is the FileDescriptorName of a socket for the admin pages.
	adminName = "admin"

	// maxSockets is how many can be passed: one, and one for the admin pages.
	maxSockets = 2
)

// sockets are those from systemd. The taker of one sets it to nil.
type sockets struct{ main, admin net.Listener }

// inherited returns the sockets from systemd, if any.
func inherited() (*sockets, error) {
	if err := checkNumber(os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")); err != nil {
		return nil, err
	}
	s := new(sockets)
	var errs []error
	for _, file := range activation.Files(true) {
		errs = append(errs, s.take(file))
		_ = file.Close() // it was duplicated
	}
	err := errors.Join(errs...)
	if err != nil {
		s.close()
	}
	return s, err
}

// checkNumber refuses an impossible number of sockets: another part of the program would lose
// each such descriptor, and there is no memory for as many as a variable can say.
func checkNumber(pid, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil || pid != strconv.Itoa(os.Getpid()) || n <= maxSockets {
		return nil
	}
	return fmt.Errorf("LISTEN_FDS is %d, must be at most %d: a socket, and one of the name %q", n, maxSockets, adminName)
}

func (s *sockets) take(file *os.File) error {
	place := &s.main
	if file.Name() == adminName {
		place = &s.admin
	}
	if *place != nil {
		return fmt.Errorf("a second socket was passed, %q, must be one, and one of the name %q", file.Name(), adminName)
	}
	err := checkListening(file)
	var ln net.Listener
	if err == nil {
		ln, err = net.FileListener(file)
	}
	if err != nil {
		return fmt.Errorf("the socket %q, which was passed, must be a listening one: %w", file.Name(), err)
	}
	*place = ln
	return nil
}

func (s *sockets) close() {
	for _, ln := range []net.Listener{s.main, s.admin} {
		if ln != nil {
			_ = ln.Close()
		}
	}
}

// systemd gets the state of the program.
type systemd struct{ sdnotify.Notifier }

// tellReady waits until the server listens.
func (n systemd) tellReady(running context.Context, s *server.Server) {
	select {
	case <-s.Ready():
		n.ready(s)
	case <-running.Done():
	}
}

// ready tells systemd of the end of the start or of a reload, but not on the way down.
func (n systemd) ready(s *server.Server) {
	if !s.Draining() {
		n.Tell(daemon.SdNotifyReady + "\nSTATUS=listening on " + s.Addr().String())
	}
}

func (n systemd) reloading() {
	n.Tell(daemon.SdNotifyMonotonicUsec() + daemon.SdNotifyReloading)
}

// tellStopping waits for the signal to end. It also says how long the end may take:
// TimeoutStopSec is never too short.
func (n systemd) tellStopping(ctx, running context.Context, s *server.Server) {
	select {
	case <-ctx.Done():
	case <-running.Done():
	}
	const more = 5 * time.Second
	most := min(s.Config().ShutdownTimeout, math.MaxInt64-more) + more
	n.Tell(fmt.Sprintf("%s\nSTATUS=going down\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, most.Microseconds()))
}

// feedWatchdog feeds the watchdog, if there is one, as long as the server is healthy, three times
// within its patience.
func (n systemd) feedWatchdog(running context.Context, s *server.Server) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		n.Log.Warn("systemd: watchdog", "error", err)
	}
	if within <= 0 {
		return
	}
	for again := time.Tick(max(within/3, time.Millisecond)); ; {
		select {
		case <-again:
			n.feed(running, s, within/3)
		case <-running.Done():
			return
		}
	}
}

func (n systemd) feed(running context.Context, s *server.Server, within time.Duration) {
	ctx, cancel := context.WithTimeout(running, within)
	defer cancel()
	switch err := s.Health(ctx); {
	case err == nil, errors.Is(err, server.ErrNotRunning): // not yet, or not any more
		n.Tell(daemon.SdNotifyWatchdog)
	case running.Err() == nil:
		n.Log.Error("systemd: nothing for the watchdog", "error", err)
	}
}
