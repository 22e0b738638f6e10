package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/peers"
	"github.com/heartwheel-go/heartwheel/internal/sdnotify"
	"github.com/heartwheel-go/heartwheel/timeout"
)

// program is the server, with its settings, its log and its center.
type program struct {
	options  *options
	log      *slog.Logger
	center   *timeout.Center
	draining atomic.Bool
}

func newProgram(o *options, stderr io.Writer) *program {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.logLevel)) // the setting allows no other names
	var handler slog.Handler = slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})
	if o.logFormat == "json" {
		handler = slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level})
	}
	return &program{options: o, log: slog.New(handler)}
}

// run serves until ctx is done. Everything it has started has ended when it returns.
func (p *program) run(ctx context.Context) (err error) {
	engine, err := p.options.openEngine(ctx, p.log)
	switch {
	case err != nil && ctx.Err() != nil: // told to end before there was anything to end
		return nil
	case err != nil:
		return fmt.Errorf("engine: %w", err)
	}
	var ends closers
	defer func() { err = errors.Join(err, ends.close()) }()
	ends.add(engine.Close)
	p.log.Info("tasks are kept in "+engine.name, "engine", engine.name)
	if p.options.migrate == migrateOnly {
		return nil
	}

	cfg, err := p.configure(&ends)
	if err != nil {
		return err
	}
	if p.center, err = timeout.New(engine.Engine, cfg); err != nil { // the wrapper, opened, is no Log and no Waker
		return withFlags(err)
	}
	ends.add(p.center.Close)

	others, err := peers.New(p.options.peers, p.options.peerToken())
	if err != nil {
		return withFlags(err)
	}
	ends.add(others.Close)
	serving := p.options.serving()
	serving.Engine, serving.OldestTransaction, serving.Logger = engine.name, engine.oldest, p.log
	serving.Ready = func() error {
		if p.draining.Load() {
			return errors.New("draining")
		}
		return nil
	}
	if len(p.options.peers) > 0 {
		serving.Peers = others.Ask
	}
	handler, err := api.New(p.center, serving)
	if err != nil {
		return err
	}
	secure, err := p.options.openTLS(p.log)
	if err != nil {
		return err
	}
	front, err := newFront(p.options.addr, handler, secure, p.options.maxConns, p.log)
	if err != nil {
		return err
	}
	return p.serve(ctx, front)
}

// serving returns what the options say of the HTTP API.
func (o *options) serving() api.Config {
	return api.Config{
		Tokens: o.tokens(), AnyHost: o.insecure, MaxBody: int64(o.maxBody), MaxBatch: o.maxBatch,
		SignedFeedback: len(o.feedbackKey) > 0,
	}
}

// serve serves until ctx is done or something fails. HTTP goes on while the center ends, since
// targets tell the outcomes of calls over HTTP.
func (p *program) serve(ctx context.Context, front *front) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var all sync.WaitGroup
	all.Go(func() { stop(front.serve()) })
	ran := make(chan error, 1)
	all.Go(func() { ran <- p.center.Run(running) })
	systemd := sdnotify.Notifier{Log: p.log}
	addr, scheme := front.ln.Addr().String(), "http"
	if p.options.tlsCert != "" {
		scheme = "https"
	}
	p.log.Info("listening", "addr", addr, "url", scheme+"://"+addr, "node", p.center.Node(), "tokens", len(p.options.tokens()))
	systemd.Tell("READY=1\nSTATUS=listening on " + addr)

	<-ctx.Done()
	p.draining.Store(true)
	systemd.Tell(stopping(p.options.drainDelay, p.options.center.Grace))
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) { // told to end
		cause = nil
		p.log.Info("going down", "drain_delay", p.options.drainDelay, "grace", p.options.center.Grace)
		time.Sleep(p.options.drainDelay) // for load balancers to notice
	}
	end()
	err := <-ran
	front.close()
	all.Wait()
	return errors.Join(cause, err)
}

// configure returns the center's config. Its callers and members are added to ends.
func (p *program) configure(ends *closers) (timeout.Config, error) {
	cfg, err := p.options.centerConfig()
	if err != nil {
		return cfg, err
	}
	cfg.Logger = p.log
	if cfg.Callers, err = p.options.openCallers(ends); err != nil {
		return cfg, fmt.Errorf("callbacks: %w", err)
	}
	if cfg.Members, err = p.options.openMembers(ends); err != nil {
		return cfg, fmt.Errorf("members: %w", err)
	}
	return cfg, nil
}

// centerConfig returns what the options say of the center.
func (o *options) centerConfig() (cfg timeout.Config, err error) {
	cfg = o.center
	cfg.Grace = cmp.Or(cfg.Grace, -1) // none
	if o.knownTopics {
		cfg.MaxTopics = -1
	}
	cfg.FeedbackKeys, err = o.feedbackKeys()
	return cfg, err
}

// closers are closed in reverse order.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

func (c closers) close() (err error) {
	for _, f := range slices.Backward(c) {
		err = errors.Join(err, f())
	}
	return err
}

// stopping is the program's last state for systemd. It also says how long the end may take, so TimeoutStopSec is never
// too short. The sum of the settings is one of microseconds, since nanoseconds could overflow.
func stopping(drainDelay, grace time.Duration) string {
	const more = 15 * time.Second
	return fmt.Sprintf("STOPPING=1\nSTATUS=going down\nEXTEND_TIMEOUT_USEC=%d", drainDelay.Microseconds()+grace.Microseconds()+more.Microseconds())
}
