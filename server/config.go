package server

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/argument"
	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
)

// ErrArgument says that a field of the config is out of bounds. The wrapping error names the
// values and the limit.
var ErrArgument error = argument.Error("server")

const (
	defaultAddr            = "127.0.0.1:9000"
	defaultTimeout         = 30 * time.Second
	defaultMaxLine         = 64 << 10
	defaultMaxOutbound     = 1 << 20
	defaultShutdownTimeout = 10 * time.Second

	// maxLoops is gnet's limit.
	maxLoops = 256
)

// Config is the config of a [Server]. The zero value is useful. [Server.Update] can
// change most settings while the server runs.
type Config struct {
	// Addr is the address to listen on, host:port. Port 0 is any free port, see Server.Addr. Empty means
	// 127.0.0.1:9000.
	Addr string

	// Listener, if not nil, brings the connections instead of Addr: a socket opened by somebody
	// else, such as systemd. It must be a *net.TCPListener or a
	// *net.UnixListener, since gnet needs the sockets themselves. Run and Shutdown close it.
	// Each connection takes a few system calls more than with Addr. But if descriptors run out,
	// accepting pauses and does not end. It stops when the farewells begin: later connections
	// wait for the next program with the socket.
	Listener net.Listener

	// Proxies, if not zero, says which connections begin with a header of the PROXY protocol: those of load balancers.
	// Then Room.MaxPerKey counts their clients, and RemoteAddr of a gnet.Conn is the client's address. All others are
	// closed at once, unless Proxies.Optional is set. FirstMessage is the time for the header and the first line together.
	Proxies proxyprotocol.Config

	// MaxLine is the longest line in bytes, without its ending. Zero means 64 KiB.
	MaxLine int

	// MaxOutbound is how many bytes of answers may wait for a slow reader.
	// Zero means 1 MiB.
	MaxOutbound int

	// Line, if not nil, gets each whole line before the protocol does, without its ending, and
	// says whether it has handled it: for a protocol of the program's own. Then answer is sent
	// with the line's ending, or nothing if it is nil. Otherwise the protocol answers. Either
	// way the line is a heartbeat. line is only valid during the call.
	//
	// Line runs in the connection's event loop, several at the same time for different
	// connections, and must not block: a slow answer is sent later, with AsyncWrite. It may
	// close the connection. After a panic the answer is an ERR.
	Line func(c gnet.Conn, line []byte) (answer []byte, handled bool)

	// Loops is the number of event loops, at most 256. Zero means one per processor.
	Loops int

	// Config has the policies. Its functions get the gnet.Conn, in its event loop. Some fields mean more
	// here:
	//   - Timeout of zero means 30s.
	//   - Activity must be ActivityManual, or zero for that: only whole lines are life, and
	//     Rate.MinBeat counts lines.
	//   - Probe.Send may be nil if another field of Probe is set: then the probe is a line, PING, and
	//     any line is an answer.
	//   - Age.OnMax may be nil: if there is a grace, the peer is told with a line, GOAWAY.
	//   - Room.MaxConns of zero means as many connections as the limit of descriptors of this process
	//     (RLIMIT_NOFILE) has room for when New or Update is called, with some to spare. A higher
	//     number is an error.
	//   - Room.Full must not be keepalive.FullWait, since gnet accepts all connections.
	//   - Closing.Farewell may be nil: the protocol has its own.
	//   - Logger gets news of the server, too. Nil means silence.
	//   - Unwrap and OnRefuse are never called: the protocol has its own last words.
	keepalive.Config

	// DrainDelay is how long the server goes on as ever after it was told to end. Only Draining
	// reports the end: load balancers have time to notice. Zero means none.
	DrainDelay time.Duration

	// Drain is how long the farewells take after DrainDelay, evenly spread: clients should not
	// all come back at once. Zero means as fast as can be.
	Drain time.Duration

	// ShutdownTimeout bounds both, after the context of Run is done. It must not be less than
	// their sum. Zero means 10s more than their sum.
	ShutdownTimeout time.Duration
}

// Validate returns the error of [New] for this config.
func (cfg Config) Validate() error {
	_, err := cfg.withDefaults(rlimit.Open())
	return err
}

// withDefaults returns the config with its defaults. open is the number of open descriptors
// without connections.
func (cfg Config) withDefaults(open int) (Config, error) {
	if cfg.Listener == nil {
		setDefault(&cfg.Addr, defaultAddr)
	}
	setDefault(&cfg.Timeout, defaultTimeout)
	setDefault(&cfg.Activity, keepalive.ActivityManual)
	setDefault(&cfg.MaxLine, defaultMaxLine)
	setDefault(&cfg.MaxOutbound, defaultMaxOutbound)
	setDefault(&cfg.Loops, min(runtime.GOMAXPROCS(0), maxLoops))
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
	if err := cfg.checkProxies(); err != nil {
		return cfg, err
	}
	if cfg.Activity != keepalive.ActivityManual {
		return cfg, fmt.Errorf("%w: Activity %v, must be %v: only whole lines are life", ErrArgument, cfg.Activity, keepalive.ActivityManual)
	}
	if cfg.Room.Full == keepalive.FullWait {
		return cfg, fmt.Errorf("%w: Room.Full %v, must be %v or %v: gnet accepts all connections",
			ErrArgument, cfg.Room.Full, keepalive.FullReject, keepalive.FullEvict)
	}
	var err error
	if cfg.Room.MaxConns, err = maxConns(cfg.Room.MaxConns, cfg.Loops, open); err != nil {
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
		{"Room.MaxConns", cfg.Room.MaxConns},
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

// setShutdownTimeout leaves time for the delay and the drain.
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

// checkListener checks the source of connections.
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

// checkProxies checks who sends headers, and keeps a copy.
func (cfg *Config) checkProxies() error {
	switch p := &cfg.Proxies; {
	case p.IsZero():
		return nil
	case len(p.Trusted) == 0:
		return fmt.Errorf("%w: Proxies.Optional without Proxies.Trusted", ErrArgument)
	default:
		p.Trusted = slices.Clone(p.Trusted)
		if err := p.Validate(); err != nil {
			return fmt.Errorf("%w: Proxies: %w", ErrArgument, err)
		}
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

// setDefault replaces a zero value by its default.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// keeper returns the config of the Keeper.
func (cfg Config) keeper() keepalive.Config {
	probing := cfg.Probe.After > 0 || cfg.Probe.Timeout > 0 || cfg.Probe.Count > 0
	if cfg.Probe.Send == nil && probing {
		cfg.Probe.Send = probe
	}
	if cfg.Age.OnMax == nil && cfg.Age.Grace > 0 {
		cfg.Age.OnMax = goAway(cfg.Age.Grace)
	}
	if cfg.Closing.Farewell == nil {
		cfg.Closing.Farewell = newFarewells(cfg).say
	}
	return cfg.Config
}
