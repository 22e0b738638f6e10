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

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/port"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
)

var (
	// ErrClosed is what Run returns where the server has been shut down before.
	ErrClosed = errors.New("server: closed")

	// ErrStopped is what Run returns where gnet has stopped without having been
	// told to, as it does when it runs out of descriptors.
	ErrStopped = errors.New("server: gnet has stopped by itself")
)

// Server is a TCP server with heartbeats. [New] makes one, Run runs it, once. All
// methods may be called by several goroutines at the same time.
type Server struct {
	cfg Config
	log *slog.Logger

	ready    chan struct{} // closed when the server listens
	gone     chan struct{} // closed when gnet has stopped
	done     chan struct{} // closed when Run has returned, or will never run
	draining atomic.Bool

	// Set before ready is closed.
	keeper *keepalive.Keeper
	engine gnet.Engine
	addr   net.Addr
	claim  net.Listener // holds the port until gnet has it

	mu      sync.Mutex
	started bool
	ended   bool

	slowReaders, longLines atomic.Uint64
}

// New makes a server. It does not listen yet. It returns [ErrArgument], wrapped
// with the values and their limit, where the config asks for something
// impossible.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg:   cfg,
		log:   cfg.Logger,
		ready: make(chan struct{}),
		gone:  make(chan struct{}),
		done:  make(chan struct{}),
	}, nil
}

// Run listens and serves until ctx is done, and then shuts down like Shutdown,
// within Config.ShutdownTimeout. It returns nil after a graceful shutdown, an
// error that wraps context.DeadlineExceeded where some connections had to be
// closed without a farewell, and otherwise why it could not listen or had to
// stop.
func (s *Server) Run(ctx context.Context) (err error) {
	if err := s.begin(); err != nil {
		return err
	}
	defer close(s.done)

	claim, addr, err := port.Claim(s.cfg.Addr)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.claim = claim
	defer s.claim.Close()
	h := newHandler(s)
	cfg := s.cfg.keeper()
	cfg.Farewell = h.farewell
	s.keeper, err = keepalive.New(cfg)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	defer s.keeper.Close()

	stopped := make(chan error, 1)
	go func() {
		err := s.serve(addr, h)
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
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.ShutdownTimeout)
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

// serve runs gnet until it stops.
func (s *Server) serve(addr string, h *handler) error {
	// A listener for each loop: what one loop accepts it also opens, before it
	// accepts the next. So the number of connections never gets far over
	// MaxConns, and no accepted one is lost when gnet stops.
	err := gnet.Run(gnetkeepalive.Wrap(h, s.keeper), "tcp://"+addr,
		gnet.WithNumEventLoop(s.cfg.Loops),
		gnet.WithReusePort(port.Shared),
		gnet.WithReuseAddr(true),
		gnet.WithLogger(logger{s.log}),
	)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// Ready returns a channel that is closed when the server listens.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr returns the address on which the server listens, or nil before Ready.
func (s *Server) Addr() net.Addr {
	select {
	case <-s.ready:
		return s.addr
	default:
		return nil
	}
}

// MaxConns returns how many connections are served at a time.
func (s *Server) MaxConns() int { return s.cfg.MaxConns }

// Shutdown ends the server gracefully: new connections are refused, and each
// open one gets a farewell and is closed, a few at a time. It returns when Run is
// about to, with ctx.Err() where ctx was done first; then the remaining
// connections are closed without a farewell. A Run that comes after it returns
// ErrClosed.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	running := s.started
	if !running && !s.ended {
		close(s.done)
	}
	s.ended = true
	s.mu.Unlock()
	if !running {
		return nil
	}
	select {
	case <-s.ready:
	case <-s.done:
		return nil
	}
	err := s.farewell(ctx)
	<-s.done
	return err
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
	s.log.Info("server: shutting down", "conns", s.keeper.Len())
	return s.keeper.Drain(ctx, 0)
}

// stop stops gnet, which closes what is left. gnet's Stop looks only twice a
// second whether it is done; Run knows at once.
func (s *Server) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.engine.Stop(ctx)
}

// Stats is what a server has done, at one moment.
type Stats struct {
	SlowReaders uint64 // closed because they did not read their answers
	LongLines   uint64 // closed because of a line that was too long
	keepalive.Stats
}

// Stats returns the server's figures, which are zero before Ready.
func (s *Server) Stats() Stats {
	stats := Stats{SlowReaders: s.slowReaders.Load(), LongLines: s.longLines.Load()}
	select {
	case <-s.ready:
		stats.Stats = s.keeper.Stats()
	default:
	}
	return stats
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
