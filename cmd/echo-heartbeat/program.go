package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/server"
)

// program is the server, with its settings, its log and its systemd.
type program struct {
	args    []string
	options *options // in force; changed by reload only
	log     *slog.Logger
	level   *slog.LevelVar
	server  *server.Server
	systemd systemd
}

func newProgram(args []string, o *options, stderr io.Writer) *program {
	p := &program{args: args, options: o, level: new(slog.LevelVar)}
	p.level.Set(o.level())
	handler := &slog.HandlerOptions{Level: p.level}
	if o.logFormat == "json" {
		p.log = slog.New(slog.NewJSONHandler(stderr, handler))
	} else {
		p.log = slog.New(slog.NewTextHandler(stderr, handler))
	}
	p.systemd.Log = p.log
	return p
}

// run serves until ctx is done. All goroutines have ended when it returns, the admin pages
// last.
func (p *program) run(ctx context.Context) (err error) {
	hup := p.hangups()
	sockets, err := inherited()
	if err != nil {
		return err
	}
	defer sockets.close()
	if p.server, err = p.newServer(sockets); err != nil {
		return usageError{p.options.explain(err)}
	}
	defer p.server.Shutdown(context.Background()) //nolint:errcheck // if it has not run

	admin, err := p.listenAdmin(sockets)
	if err != nil {
		return err
	}
	var background sync.WaitGroup
	defer background.Wait()
	if admin != nil {
		pages, err := newAdmin(admin, p.server, p.options.debug, p.log)
		if err != nil {
			return err
		}
		background.Go(pages.serve)
		defer pages.close()
	}

	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	if hup != nil {
		background.Go(func() { p.reloadOn(running, hup) })
	}
	background.Go(func() { p.systemd.tellReady(running, p.server) })
	background.Go(func() { p.systemd.feedWatchdog(running, p.server) })
	background.Go(func() { p.systemd.tellStopping(ctx, running, p.server) })

	err = p.server.Run(ctx)
	p.logAdvice()
	return err
}

// hangups returns a channel for SIGHUP, or nil without a config file: then SIGHUP ends the
// program, as a closing terminal wants. With a file it never does, neither before the program
// serves nor when it is about to end; so nothing stops the signal.
func (p *program) hangups() <-chan os.Signal {
	if p.options.config == "" {
		return nil
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup
}

// newServer makes a server by the options, on the passed socket if there is one.
func (p *program) newServer(sockets *sockets) (*server.Server, error) {
	cfg := p.options.server
	cfg.Logger = p.log
	if sockets.main != nil {
		cfg.Addr, cfg.Listener = "", sockets.main
		sockets.main = nil // the server closes it
	}
	p.raiseLimit(cfg)
	s, err := server.New(cfg)
	if err != nil && cfg.Listener != nil {
		_ = cfg.Listener.Close()
	}
	return s, err
}

// listenAdmin returns the socket of the admin pages, or nil without admin pages.
func (p *program) listenAdmin(sockets *sockets) (net.Listener, error) {
	if ln := sockets.admin; ln != nil {
		sockets.admin = nil // closed by its http.Server
		return ln, nil
	}
	if p.options.admin == "" {
		return nil, nil
	}
	return net.Listen("tcp", p.options.admin)
}

// raiseLimit raises the descriptor limit for a config.
func (p *program) raiseLimit(cfg server.Config) {
	if have, err := raiseLimit(cfg.Room.MaxConns); err != nil {
		p.log.Debug("descriptor limit", "limit", have, "error", err)
	}
}

// raiseLimit raises the descriptor limit as far as it goes, or as far as needed. If that is not
// far enough, server.New says so.
func raiseLimit(conns int) (limit int, err error) {
	const enough = 1 << 20
	want := enough
	if conns > 0 {
		want = conns + spare(conns)
	}
	return rlimit.Raise(want)
}

// spare is how many descriptors more than connections to ask for: those the server keeps free,
// and many more, since most come from the loops.
func spare(conns int) int { return 1024 + conns/16 }

// logAdvice logs the findings of -advise.
func (p *program) logAdvice() {
	stats := p.server.Keeper().Stats()
	if len(stats.Silences) == 0 {
		return
	}
	attrs := []any{"timeout", p.server.Config().Timeout, "near_misses", stats.NearMisses}
	for _, silence := range stats.Silences {
		switch silence.Share {
		case 0.25, 0.5, 0.75, 1, 1.5, 2:
			attrs = append(attrs, "would_close_at_"+silence.Length.String(), silence.Count)
		}
	}
	p.log.Info("advice", attrs...)
}

var errNotNow = errors.New("the program is going down")
