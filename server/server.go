package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/port"
	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

var (
	// ErrClosed is the error of Run after Shutdown.
	ErrClosed = errors.New("server: closed")

	// ErrStopped is the error of Run after gnet has stopped unasked, as it does when it runs
	// out of descriptors.
	ErrStopped = errors.New("server: gnet has stopped by itself")
)

// Server is a TCP server with heartbeats. [New] makes one, Run runs it, once. All
// methods are safe for concurrent use.
type Server struct {
	keeper   *keepalive.Keeper
	listener net.Listener // of the config, or nil if gnet has its own
	log      *slog.Logger
	open     int // descriptors open when it was made

	cfg      atomic.Pointer[Config] // in force
	updating sync.Mutex             // held while it is replaced

	ready    chan struct{} // closed when the server listens
	gone     chan struct{} // closed when gnet has stopped
	done     chan struct{} // closed when Run has returned, or will never run
	draining atomic.Bool

	// Set before ready is closed.
	engine   engine
	addr     net.Addr
	claim    net.Listener // holds the port until gnet has it
	acceptor *acceptor    // if there is a listener

	mu      sync.Mutex
	started bool
	ended   bool

	loops sync.Map // event loops with connections, now or earlier
	hand  hand

	most atomic.Int64 // most connections with a descriptor

	slowReaders, longLines, crowded, panics atomic.Uint64
}

// engine is what gnet runs.
type engine interface {
	Stop(ctx context.Context) error
}

// New makes a server. Its Keeper runs from then on, but it does not listen yet. If it is never
// run, Shutdown ends it. New returns [ErrArgument], wrapped with the values and their limit, if
// the config asks for something impossible.
func New(cfg Config) (*Server, error) {
	open := rlimit.Open()
	cfg, err := cfg.withDefaults(open)
	if err != nil {
		return nil, err
	}
	keeper, err := keepalive.New(cfg.keeper())
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{
		keeper:   keeper,
		listener: cfg.Listener,
		log:      cfg.Logger,
		open:     open,
		ready:    make(chan struct{}),
		gone:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	s.putInForce(&cfg)
	return s, nil
}

func (s *Server) putInForce(cfg *Config) {
	s.cfg.Store(cfg)
	s.most.Store(mostOpen(cfg.Loops, s.open))
}

// Run listens and serves until ctx is done, and then shuts down like Shutdown, within
// Config.ShutdownTimeout. It returns nil after a graceful shutdown, and an error wrapping
// context.DeadlineExceeded if some connections had to be closed without a farewell. Otherwise
// the error says why it could not listen or had to stop.
func (s *Server) Run(ctx context.Context) (err error) {
	if err := s.begin(); err != nil {
		return err
	}
	defer close(s.done)
	defer s.keeper.Close()

	serve, err := s.listen(newHandler(s))
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	stopped := make(chan error, 1)
	go func() {
		err := serve()
		close(s.gone)
		stopped <- err
	}()
	select {
	case err = <-stopped:
	case <-ctx.Done():
		err = s.drain(stopped)
	}
	if err == nil && !s.draining.Load() {
		err = ErrStopped
	}
	return err
}

// drain shuts down because the context of Run is done.
func (s *Server) drain(stopped <-chan error) error {
	select {
	case <-s.ready:
	case err := <-stopped: // it never listened
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Load().ShutdownTimeout)
	defer cancel()
	err := s.farewell(ctx)
	return errors.Join(err, <-stopped)
}

func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return ErrClosed
	}
	if s.started {
		return errors.New("server: Run has been called before")
	}
	s.started = true
	return nil
}

// listen opens the source of connections, and returns a function to take them until gnet stops.
func (s *Server) listen(h *handler) (serve func() error, err error) {
	if s.listener != nil {
		return func() error { return s.serveListener(h) }, nil
	}
	claim, addr, err := port.Claim(s.cfg.Load().Addr)
	if err != nil {
		return nil, err
	}
	s.claim = claim
	return func() error { return s.serveAddr(addr, h) }, nil
}

// serveAddr runs gnet on an address until it stops.
func (s *Server) serveAddr(addr string, h *handler) error {
	defer s.claim.Close()
	// A listener for each loop: what one loop accepts it also opens, before it
	// accepts the next. So the number of connections never gets far over
	// MaxConns, and no accepted one is lost when gnet stops.
	err := gnet.Run(newGate(h, s), "tcp://"+addr,
		gnet.WithNumEventLoop(s.cfg.Load().Loops),
		gnet.WithReusePort(port.Shared),
		gnet.WithReuseAddr(true),
		gnet.WithLogger(logger{s.log}),
	)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// listening publishes the address.
func (s *Server) listening(addr net.Addr) {
	s.addr = addr
	cfg := s.cfg.Load()
	s.log.Info("server: listening", "addr", addr.String(), "timeout", cfg.Timeout, "max_conns", cfg.Room.MaxConns)
	close(s.ready)
}

// Ready returns a channel. It is closed when the server listens.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr returns the address of the listening server, or nil before Ready.
func (s *Server) Addr() net.Addr {
	select {
	case <-s.ready:
		return s.addr
	default:
		return nil
	}
}

// Keeper returns the Keeper of the connections, for metrics and for timeouts of their own. Its
// conns are gnet.Conns. To change its config there is Update.
func (s *Server) Keeper() *keepalive.Keeper { return s.keeper }

// Config returns the config in force, with the defaults of this package: zeros may remain in what it
// has from package keepalive, except Room.MaxConns, the number of connections served at a time.
func (s *Server) Config() Config { return *s.cfg.Load() }

// Draining reports whether the server is on its way down: from the moment on when the
// context of Run is done or Shutdown is called, also while it takes new connections
// because of Config.DrainDelay.
func (s *Server) Draining() bool { return s.draining.Load() }

// Shutdown ends the server gracefully: after Config.DrainDelay new connections are refused, and
// each open one gets a farewell and is closed, spread over Config.Drain. It returns when Run is
// about to return. If ctx is done first, the error wraps ctx.Err(), and the remaining
// connections are closed without a farewell. A Config.Line that blocks its event loop holds up
// Shutdown, whatever ctx says. A later Run returns ErrClosed.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	running := s.started
	if !running && !s.ended {
		s.abandon()
	}
	s.ended = true
	s.mu.Unlock()
	if !running {
		return nil
	}
	select {
	case <-s.ready:
	case <-s.done:
	}
	if s.isDone() {
		return nil
	}
	err := s.farewell(ctx)
	<-s.done
	return err
}

func (s *Server) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// abandon ends a server before it has ever run.
func (s *Server) abandon() {
	s.draining.Store(true)
	_ = s.keeper.Close()
	if s.listener != nil {
		_ = s.listener.Close()
	}
	close(s.done)
}

// farewell says goodbye to all connections, waits until they are gone or ctx is
// done, and stops gnet.
func (s *Server) farewell(ctx context.Context) error {
	defer s.stop()
	if s.draining.Swap(true) { // somebody else is at it
		select {
		case <-s.gone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	cfg := s.cfg.Load()
	if cfg.DrainDelay > 0 {
		s.log.Info("server: shutting down soon", "delay", cfg.DrainDelay, "conns", s.keeper.Len())
		s.goOn(ctx, cfg.DrainDelay)
	}
	s.log.Info("server: shutting down", "conns", s.keeper.Len())
	if s.acceptor != nil {
		s.acceptor.stop()
	}
	return s.keeper.Drain(ctx, cfg.Drain)
}

// goOn waits while all goes on as ever, unless ctx is done or gnet stops before.
func (s *Server) goOn(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-s.gone:
	}
}

// stop stops gnet, and gnet closes the rest. gnet's Stop looks only twice a second whether it is
// done. Run knows at once.
func (s *Server) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.engine.Stop(ctx)
}

// Stats is what a server has done, at one moment.
type Stats struct {
	SlowReaders uint64 // closed because they did not read their answers
	LongLines   uint64 // closed because of a line longer than MaxLine
	Crowded     uint64 // refused because too many had their descriptors during their farewells
	keepalive.Stats
}

// Stats returns the server's figures.
func (s *Server) Stats() Stats {
	stats := s.keeper.Stats()
	stats.Panics += s.panics.Load()
	return Stats{
		SlowReaders: s.slowReaders.Load(),
		LongLines:   s.longLines.Load(),
		Crowded:     s.crowded.Load(),
		Stats:       stats,
	}
}

// logger lets gnet log. What it says at Info is of no use to an operator.
type logger struct{ log *slog.Logger }

func (l logger) Debugf(string, ...any)             {}
func (l logger) Infof(format string, args ...any)  { l.write(slog.LevelDebug, format, args) }
func (l logger) Warnf(format string, args ...any)  { l.write(slog.LevelWarn, format, args) }
func (l logger) Errorf(format string, args ...any) { l.write(slog.LevelError, format, args) }
func (l logger) Fatalf(format string, args ...any) { l.write(slog.LevelError, format, args) }

func (l logger) write(level slog.Level, format string, args []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "gnet: "+strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}
