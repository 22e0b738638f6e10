package server

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/pool"
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

	// maxLoops is gnet's limit.
	maxLoops = 256
)

// Config is what a [Server] can be told. The zero value is useful. What can be changed
// while the server runs is said at [Server.Update].
type Config struct {
	// Addr is where to listen, host:port. Port 0 is any free port, see
	// Server.Addr. Empty means 127.0.0.1:9000.
	Addr string

	// Listener, if not nil, is where connections come from instead of Addr: a socket
	// that somebody else has opened, such as systemd. It must be a *net.TCPListener or
	// a *net.UnixListener, since gnet needs the sockets themselves. Run and Shutdown
	// close it. Each connection takes a few system calls more than with Addr. But where
	// descriptors run out, accepting pauses and does not end, and it stops when the
	// goodbyes begin: those that come then wait for whoever else has the socket.
	Listener net.Listener

	// Timeout is how long a connection may be without a whole line. Zero means
	// 30s.
	Timeout time.Duration

	// Tick is how precise that is, see keepalive.Config.
	Tick time.Duration

	// MaxConns is how many connections are served at a time. Zero means as many
	// as the limit of descriptors of this process (RLIMIT_NOFILE) has room for
	// when New or Update is called, with some to spare; more than that is an error.
	MaxConns int

	// MaxLine is the longest line in bytes, without its ending. Zero means 64 KiB.
	MaxLine int

	// MaxOutbound is how many bytes of answers may wait for a peer that does not
	// read them. Zero means 1 MiB.
	MaxOutbound int

	// Line, if not nil, gets each whole line before the protocol does, without its ending,
	// and says whether it has handled it: for a protocol of the program's own. Then answer
	// is sent with the line's ending, or nothing where it is nil; else the protocol
	// answers. Either way the line is a heartbeat. line is only valid during the call.
	//
	// It runs in the connection's event loop, several at the same time for different
	// connections, and must not block: who has to wait answers later, with AsyncWrite.
	// It may close the connection. Where it panics, the answer is an ERR.
	Line func(c gnet.Conn, line []byte) (answer []byte, handled bool)

	// Loops is the number of event loops. Zero means one per processor.
	Loops int

	// Keepalive has the policies: FirstMessage, MaxAge, MaxPerKey and so on. Timeout,
	// Tick, MaxConns, Logger, Activity and Farewell are the server's own and must be
	// left alone there, and so must Full be pool.Reject or pool.EvictIdlest, since gnet
	// accepts whoever comes. Functions get the gnet.Conn, in its event loop.
	//
	// Where ProbeAfter, ProbeTimeout or ProbeCount is set and Probe is nil, the probe is
	// a line, PING, to which any line is an answer. Where MaxAgeGrace is set and OnMaxAge
	// is nil, the peer is told with a line, GOAWAY.
	Keepalive keepalive.Config

	// DrainDelay is how long the server goes on as ever after it was told to end, and
	// only says so by Draining: time for load balancers to notice. Zero means none.
	DrainDelay time.Duration

	// Drain is over how long the goodbyes are spread after that, so that clients don't
	// all come back at once. Zero means as fast as can be.
	Drain time.Duration

	// ShutdownTimeout bounds both, after the context of Run is done. It must not be less
	// than their sum. Zero means 10s more than that.
	ShutdownTimeout time.Duration

	// Logger gets what is worth telling an operator at Info and above, and a line
	// per closed connection at Debug. Nil means silence.
	Logger *slog.Logger
}

// Validate returns the error that [New] would return for this config.
func (cfg Config) Validate() error {
	_, err := cfg.withDefaults(openNow())
	return err
}

// withDefaults returns the config with what its zeros mean. open is how many descriptors
// are open that are no connections.
func (cfg Config) withDefaults(open int) (Config, error) {
	if cfg.Listener == nil {
		setDefault(&cfg.Addr, defaultAddr)
	}
	setDefault(&cfg.Timeout, defaultTimeout)
	setDefault(&cfg.MaxLine, defaultMaxLine)
	setDefault(&cfg.MaxOutbound, defaultMaxOutbound)
	setDefault(&cfg.Loops, runtime.GOMAXPROCS(0))
	setDefault(&cfg.Logger, slog.New(slog.DiscardHandler))
	if err := cfg.checkSigns(); err != nil {
		return cfg, err
	}
	if cfg.Loops > maxLoops {
		return cfg, fmt.Errorf("%w: Loops %d, must be at most %d", ErrArgument, cfg.Loops, maxLoops)
	}
	if err := cfg.setShutdownTimeout(); err != nil {
		return cfg, err
	}
	if err := cfg.checkListener(); err != nil {
		return cfg, err
	}
	if err := cfg.checkKeepalive(); err != nil {
		return cfg, err
	}
	var err error
	if cfg.MaxConns, err = maxConns(cfg.MaxConns, cfg.Loops, open); err != nil {
		return cfg, err
	}
	if err := cfg.keeper().Validate(); err != nil {
		return cfg, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return cfg, nil
}

func (cfg Config) checkSigns() error {
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
			return fmt.Errorf("%w: %s %d, must not be negative", ErrArgument, field.name, field.value)
		}
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{
		{"DrainDelay", cfg.DrainDelay},
		{"Drain", cfg.Drain},
		{"ShutdownTimeout", cfg.ShutdownTimeout},
	} {
		if field.value < 0 {
			return fmt.Errorf("%w: %s %v, must not be negative", ErrArgument, field.name, field.value)
		}
	}
	return nil
}

// setShutdownTimeout sees to it that there is time for what is wanted.
func (cfg *Config) setShutdownTimeout() error {
	wanted := cfg.DrainDelay + min(cfg.Drain, math.MaxInt64-cfg.DrainDelay)
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = wanted + min(defaultShutdownTimeout, math.MaxInt64-wanted)
	}
	if cfg.ShutdownTimeout < wanted {
		return fmt.Errorf("%w: ShutdownTimeout %v, must not be less than DrainDelay %v and Drain %v together",
			ErrArgument, cfg.ShutdownTimeout, cfg.DrainDelay, cfg.Drain)
	}
	return nil
}

// checkListener checks where connections come from.
func (cfg Config) checkListener() error {
	switch cfg.Listener.(type) {
	case nil:
		if err := checkAddr(cfg.Addr); err != nil {
			return fmt.Errorf("%w: Addr %q: %w", ErrArgument, cfg.Addr, err)
		}
	case *net.TCPListener, *net.UnixListener:
		if cfg.Addr != "" {
			return fmt.Errorf("%w: Addr %q and a Listener, must be one of them", ErrArgument, cfg.Addr)
		}
	default:
		return fmt.Errorf("%w: Listener %T, must be a *net.TCPListener or a *net.UnixListener", ErrArgument, cfg.Listener)
	}
	return nil
}

func checkAddr(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

// checkKeepalive refuses what is the server's own, which would be lost.
func (cfg Config) checkKeepalive() error {
	k := cfg.Keepalive
	switch {
	case k.Timeout != 0:
		return fmt.Errorf("%w: Keepalive.Timeout %v, must be 0: Timeout says it", ErrArgument, k.Timeout)
	case k.Tick != 0:
		return fmt.Errorf("%w: Keepalive.Tick %v, must be 0: Tick says it", ErrArgument, k.Tick)
	case k.MaxConns != 0:
		return fmt.Errorf("%w: Keepalive.MaxConns %d, must be 0: MaxConns says it", ErrArgument, k.MaxConns)
	case k.Logger != nil:
		return fmt.Errorf("%w: Keepalive.Logger, must be nil: Logger says it", ErrArgument)
	case k.Activity != 0 && k.Activity != keepalive.ActivityManual:
		return fmt.Errorf("%w: Keepalive.Activity %v, must be %v: a whole line is life, and nothing else",
			ErrArgument, k.Activity, keepalive.ActivityManual)
	case k.Farewell != nil:
		return fmt.Errorf("%w: Keepalive.Farewell, must be nil: the protocol has its own", ErrArgument)
	case k.Full == pool.Wait:
		return fmt.Errorf("%w: Keepalive.Full %v, must be %v or %v: gnet accepts whoever comes",
			ErrArgument, k.Full, pool.Reject, pool.EvictIdlest)
	}
	return nil
}

// setDefault replaces a zero value by what it means.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// keeper is the config of the Keeper. Its functions that are nil and the server's are
// there for a handler to fill.
func (cfg Config) keeper() keepalive.Config {
	k := cfg.Keepalive
	k.Timeout, k.Tick, k.MaxConns = cfg.Timeout, cfg.Tick, cfg.MaxConns
	k.Activity, k.Logger = keepalive.ActivityManual, cfg.Logger
	if k.Probe == nil && (k.ProbeAfter > 0 || k.ProbeTimeout > 0 || k.ProbeCount > 0) {
		k.Probe = probe
	}
	if k.OnMaxAge == nil && k.MaxAgeGrace > 0 {
		k.OnMaxAge = goAway(k.MaxAgeGrace)
	}
	k.Farewell = newFarewells(cfg).say
	return k
}
