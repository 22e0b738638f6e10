package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// ErrArgument says that a field of the config is outside of what is possible. The
// error that wraps it names the values and the limit.
var ErrArgument = errors.New("server: invalid argument")

const (
	defaultAddr            = "127.0.0.1:9000"
	defaultTimeout         = 30 * time.Second
	defaultMaxLine         = 64 << 10
	defaultMaxOutbound     = 1 << 20
	defaultShutdownTimeout = 10 * time.Second

	// minSpare descriptors, or a 32nd of all where that is more, are kept free of
	// connections, besides those that are open already and those of the loops.
	// gnet shuts itself down when an accept finds no descriptor, and one over the
	// limit is accepted before it is refused.
	minSpare   = 64
	spareShare = 32

	// perLoop is a listener, an epoll and an eventfd.
	perLoop = 3
)

// Config is what a [Server] can be told. The zero value is useful.
type Config struct {
	// Addr is where to listen, host:port. Port 0 is any free port, see
	// Server.Addr. Empty means 127.0.0.1:9000.
	Addr string

	// Timeout is how long a connection may be without a whole line. Zero means
	// 30s.
	Timeout time.Duration

	// Tick is how precise that is, see keepalive.Config.
	Tick time.Duration

	// MaxConns is how many connections are served at a time. Zero means as many
	// as the limit of descriptors of this process (RLIMIT_NOFILE) has room for
	// when New is called, with some to spare; more than that is an error.
	MaxConns int

	// MaxLine is the longest line in bytes, without its ending. Zero means 64 KiB.
	MaxLine int

	// MaxOutbound is how many bytes of answers may wait for a peer that does not
	// read them. Zero means 1 MiB.
	MaxOutbound int

	// Loops is the number of event loops. Zero means one per processor.
	Loops int

	// ShutdownTimeout bounds the graceful shutdown after the context of Run is
	// done. Zero means 10s.
	ShutdownTimeout time.Duration

	// Logger gets what is worth telling an operator at Info and above, and a line
	// per closed connection at Debug. Nil means silence.
	Logger *slog.Logger
}

func (cfg Config) withDefaults() (Config, error) {
	setDefault(&cfg.Addr, defaultAddr)
	setDefault(&cfg.Timeout, defaultTimeout)
	setDefault(&cfg.MaxLine, defaultMaxLine)
	setDefault(&cfg.MaxOutbound, defaultMaxOutbound)
	setDefault(&cfg.Loops, runtime.GOMAXPROCS(0))
	setDefault(&cfg.ShutdownTimeout, defaultShutdownTimeout)
	setDefault(&cfg.Logger, slog.New(slog.DiscardHandler))
	for _, field := range []struct {
		name  string
		value int
	}{
		{"MaxConns", cfg.MaxConns},
		{"MaxLine", cfg.MaxLine},
		{"MaxOutbound", cfg.MaxOutbound},
		{"Loops", cfg.Loops},
	} {
		if field.value < 0 {
			return cfg, fmt.Errorf("%w: %s %d, must not be negative", ErrArgument, field.name, field.value)
		}
	}
	if cfg.Loops > maxLoops {
		return cfg, fmt.Errorf("%w: Loops %d, must be at most %d", ErrArgument, cfg.Loops, maxLoops)
	}
	if cfg.ShutdownTimeout < 0 {
		return cfg, fmt.Errorf("%w: ShutdownTimeout %v, must not be negative", ErrArgument, cfg.ShutdownTimeout)
	}
	if err := checkAddr(cfg.Addr); err != nil {
		return cfg, fmt.Errorf("%w: Addr %q: %w", ErrArgument, cfg.Addr, err)
	}
	var err error
	if cfg.MaxConns, err = maxConns(cfg.MaxConns, cfg.Loops); err != nil {
		return cfg, err
	}
	if err := cfg.keeper().Validate(); err != nil {
		return cfg, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return cfg, nil
}

// maxLoops is gnet's limit.
const maxLoops = 256

// setDefault replaces a zero value by what it means.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// keeper is the config of the Keeper, less what only a server knows.
func (cfg Config) keeper() keepalive.Config {
	return keepalive.Config{
		Timeout:  cfg.Timeout,
		Tick:     cfg.Tick,
		Activity: keepalive.ActivityManual,
		MaxConns: cfg.MaxConns,
		Logger:   cfg.Logger,
	}
}

func checkAddr(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

// maxConns returns how many connections to serve where the config wants want.
func maxConns(want, loops int) (int, error) {
	limit, ok := rlimit.Files()
	if !ok {
		return want, nil
	}
	spare := max(minSpare, limit/spareShare) + perLoop*loops + rlimit.Open()
	room := limit - spare
	if room < 1 || want > room {
		return 0, fmt.Errorf("%w: MaxConns %d: the process may have %d descriptors, of which %d are not for connections, so there is room for %d",
			ErrArgument, want, limit, spare, max(room, 0))
	}
	if want == 0 {
		return room, nil
	}
	return want, nil
}
