package keepalive

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/heartwheel-go/heartwheel/pool"
)

const (
	defaultTimeout = time.Minute
	defaultTick    = 100 * time.Millisecond
	minTick        = time.Millisecond
	maxTick        = time.Hour

	defaultMultiplier = 1.5
	defaultJitter     = 0.1
	defaultStrikes    = 3
	defaultFarewell   = time.Second
)

// Activity says what moves the deadline of a connection.
type Activity int

const (
	// ActivityRead says that whatever is read from the connection is life. So is what
	// ReadFrom and WriteTo move, in either direction: a long download does not
	// end because its client has nothing to say.
	ActivityRead Activity = iota

	// ActivityReadWrite says that what is written to it is life too. A peer that only
	// listens is alive to this, but so is one that has vanished, for as long as
	// somebody writes to it and the socket takes it.
	ActivityReadWrite

	// ActivityManual says that only Touch is life.
	ActivityManual

	// ActivityKernel is ActivityRead without any work per read: the kernel knows
	// when bytes last arrived, and is asked when the deadline has passed. Bytes
	// are life when they arrive, whether or not they are read, so one now and
	// then keeps a connection. A silent one is closed up to seven jiffies later
	// (7 to 70 ms), since the kernel is no more precise. It is for TCP on Linux;
	// elsewhere New returns ErrArgument. Connections whose socket can't tell (Unix
	// sockets, MPTCP, a net.Pipe) are kept as with ActivityRead, and the first is
	// logged.
	ActivityKernel
)

var activityNames = [...]string{"read", "readwrite", "manual", "kernel"}

func (a Activity) String() string {
	if a < 0 || int(a) >= len(activityNames) {
		return fmt.Sprintf("Activity(%d)", int(a))
	}
	return activityNames[a]
}

// Config is what a [Keeper] can be told. The zero value is useful: connections that
// are silent for a minute are closed, and all else is off.
//
// No duration must be negative, and each may be off by up to two ticks, but never
// too short. Most can be changed later, see [Keeper.Update].
type Config struct {
	// Timeout is how long a connection may be silent. It is never closed before
	// that has passed, and at most two ticks after; but where there are probes whose
	// times are set to less together, when these are over. Zero means a minute.
	Timeout time.Duration

	// Tick is how precise that is. Zero means 100ms, or a tenth of a Timeout
	// that is shorter than a second. It must not be shorter than 1ms or longer
	// than Timeout, or than an hour.
	Tick time.Duration

	// Activity is what counts as life. The zero value is ActivityRead.
	Activity Activity

	// FirstMessage is how long a new connection may take until its peer is heard for
	// the first time. With ActivityReadWrite a greeting of ours is life, too. Zero
	// means Timeout.
	FirstMessage time.Duration

	// ReadIdle and WriteIdle are how long nothing may be read from a connection, and
	// nothing be written to it, apart from what Activity and Timeout say. What is
	// written counts when the socket sends it, so a large write to a slow peer is
	// no silence as long as it gets on. On gnet they are for TCP on Linux. Zero means
	// for ever.
	ReadIdle, WriteIdle time.Duration

	// Multiplier is how many of its own intervals a connection may be silent, see
	// [Keeper.SetInterval]. Zero means 1.5, as MQTT has it; else it must be at
	// least 1.
	Multiplier float64

	// MinTimeout and MaxTimeout bound what a connection is given by
	// [Keeper.SetTimeout] and [Keeper.SetInterval]. Zero means no bound.
	MinTimeout, MaxTimeout time.Duration

	// Probe, if not nil, asks a silent peer for a sign of life, such as a ping. It
	// is called after about ProbeAfter of silence, up to ProbeCount times with
	// ProbeTimeout between them and after the last; whatever counts as life ends
	// that, and if nothing comes, the connection is closed with ReasonNoAnswer. An
	// error of Probe closes it at once. It does not work with ActivityReadWrite, where
	// the probe itself would be life. It is called by a worker, and on gnet in
	// the connection's event loop.
	//
	// So that connections which fell silent together are not all probed together,
	// each has a moment of its own in the last quarter of ProbeAfter; for as much longer
	// the last answer is waited for.
	Probe func(conn any) error

	// ProbeAfter is by when a silent peer is probed first. Zero means half of Timeout.
	ProbeAfter time.Duration

	// ProbeTimeout is how long a peer may take to answer. Zero means what is left of
	// Timeout after ProbeAfter, shared by ProbeCount probes.
	ProbeTimeout time.Duration

	// ProbeCount is how many probes may go unanswered. Zero means 1; at most 100.
	// ProbeAfter and ProbeCount times ProbeTimeout must not be more than Timeout.
	ProbeCount int

	// MaxAge is how old a connection may become, whatever its peer says. Each has an
	// age of its own, between MaxAge and MaxAgeJitter less, so that those that came
	// together don't leave together. Zero means for ever.
	MaxAge time.Duration

	// MaxAgeJitter is a share of MaxAge. Zero means 0.1, negative means none; it must
	// be less than 1.
	MaxAgeJitter float64

	// MaxAgeGrace is how much longer a connection may stay after OnMaxAge was told, to
	// finish what it is doing. Zero means that it is closed at once.
	MaxAgeGrace time.Duration

	// MinBeat is the shortest time that there should be between two touches, on
	// average over ten seconds. A peer that sends more gets a strike, and one in whose
	// last ten seconds there were not too many has none. It does not work with
	// ActivityKernel, where nobody counts. Zero means that all is allowed.
	MinBeat time.Duration

	// MinRate is how many bytes per second a peer has to send while it sends anything
	// at all: against one that sends a byte now and then just to stay. A peer that
	// is slower over ten seconds gets a strike, and one that is not has none. On
	// gnet it is for TCP on Linux. Zero means any rate.
	MinRate int

	// Strikes is how many strikes in a row close a connection, with ReasonTooMany or
	// ReasonTooSlow. Zero means 3; at most 100.
	Strikes int

	// MaxConns is how many connections are kept. Zero means any number.
	MaxConns int

	// Full says what happens when one more comes: pool.Reject closes it at once,
	// pool.Wait has the listener's Accept wait until there is room (and is Reject on
	// gnet and for Conn), and pool.EvictIdlest closes the one that has been silent
	// for longest.
	Full pool.Full

	// EvictMinIdle is how long a connection must have been silent to be evicted.
	// Zero means ten ticks.
	EvictMinIdle time.Duration

	// MaxPerKey is how many connections one peer may have, by its Key. One more is
	// closed at once. Zero means any number.
	MaxPerKey int

	// Key says which connections count together: the default is [pool.KeyOf], an IPv4
	// address, or the first half of an IPv6 address. The address is the connection's
	// RemoteAddr: where a listener inside speaks the PROXY protocol, that of the
	// client and not of the proxy. An empty key is not limited.
	Key func(remote net.Addr) string

	// Pressure, if not nil, says how much of some resource is in use, from 0 to 1,
	// at most once a second. From PressureLow on (zero means 0.85), timeouts
	// become shorter in proportion, until at PressureHigh (zero means 0.95) that
	// of a connection which has none of its own is PressureTimeout.
	Pressure                  func() float64
	PressureLow, PressureHigh float64

	// PressureTimeout is what Timeout becomes under full pressure. If it is not
	// zero, descriptors that run out are pressure on their own. Zero means a quarter of
	// Timeout where Pressure is set, and no pressure at all where it is not.
	PressureTimeout time.Duration

	// OnIdle is asked what to do with a connection that is to be closed because of
	// some silence: ReasonIdle, ReasonFirstMessage, ReasonReadIdle, ReasonWriteIdle
	// or ReasonNoAnswer. conn is what Touch would be given. It is called by one of
	// a few workers, and on gnet in the connection's event loop. Nil means Close.
	OnIdle func(conn any, reason Reason) Verdict

	// OnMaxAge is told that a connection is as old as it may become, before the grace:
	// time for a last word in its protocol. It is called like OnIdle.
	OnMaxAge func(conn any)

	// OnClose is told that a connection is closed, once for each, and why. It is
	// called where the connection was closed: on the goroutine that called
	// Close, by a worker for one that the Keeper closes, or on a goroutine of its own
	// after a farewell, and on gnet in the event loop.
	OnClose func(conn any, reason Reason)

	// Farewell gives the last bytes for a connection that the Keeper closes. They
	// are written past all layers above, so not below TLS. Nil, or no bytes, means
	// none.
	Farewell func(conn any, reason Reason) []byte

	// FarewellTimeout bounds the farewell: how long its bytes may take to leave, and
	// with CloseHalf also how long the peer has to close its side. On gnet, which
	// keeps what a slow peer does not take, that has to leave before it. Zero means
	// a second.
	FarewellTimeout time.Duration

	// CloseMode is how the Keeper closes a connection. The zero value is
	// CloseGraceful.
	CloseMode CloseMode

	// MaxClosePerSecond bounds how many connections the policies close in a second.
	// The others wait their turn, and one that is heard meanwhile stays. Zero means
	// any number.
	MaxClosePerSecond int

	// Advise counts how long silences are, see [Keeper.Advice]. It costs a look at a
	// silent connection for each eighth of its timeout. It does not work with
	// ActivityKernel.
	Advise bool

	// DryRun closes nobody: whom the policies would have closed is counted, and left
	// alone until it is heard again. That includes who would be evicted, so there may
	// be 64 more than MaxConns. See Stats.WouldClose and [Keeper.Advice].
	DryRun bool

	// Logger gets a line per closed connection at Debug; how far a drain is, at Info; a
	// warning for a burst of closed connections, for those that were refused or
	// evicted, when the process was stopped for a while, or when ActivityKernel does
	// not work for a connection; and an error for each function of the user that
	// panicked, and for a connection that has lost its guard. Nil means silence, but
	// panics go to slog's default logger then.
	Logger *slog.Logger
}

// Validate returns the error that [New] would return for this config.
func (cfg Config) Validate() error {
	_, err := cfg.withDefaults()
	return err
}

func (cfg Config) withDefaults() (Config, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Timeout < minTick {
		return cfg, fmt.Errorf("%w: Timeout %v, must be at least %v", ErrArgument, cfg.Timeout, minTick)
	}
	if cfg.Tick == 0 {
		cfg.Tick = max(minTick, min(defaultTick, cfg.Timeout/10))
	}
	if cfg.Tick < minTick {
		return cfg, fmt.Errorf("%w: Tick %v, must be at least %v", ErrArgument, cfg.Tick, minTick)
	}
	if cfg.Tick > maxTick {
		return cfg, fmt.Errorf("%w: Tick %v, must be at most %v", ErrArgument, cfg.Tick, maxTick)
	}
	if cfg.Tick > cfg.Timeout {
		return cfg, fmt.Errorf("%w: Tick %v is longer than Timeout %v", ErrArgument, cfg.Tick, cfg.Timeout)
	}
	if err := cfg.Activity.check(socketsTell); err != nil {
		return cfg, err
	}
	cfg.FarewellTimeout = cmp.Or(cfg.FarewellTimeout, defaultFarewell)
	cfg.Multiplier = cmp.Or(cfg.Multiplier, defaultMultiplier)
	cfg.MaxAgeJitter = cmp.Or(cfg.MaxAgeJitter, defaultJitter)
	cfg.Strikes = cmp.Or(cfg.Strikes, defaultStrikes)
	if cfg.Key == nil {
		cfg.Key = pool.KeyOf
	}
	if cfg.Pressure != nil && cfg.PressureTimeout == 0 {
		cfg.PressureTimeout = max(cfg.Tick, cfg.Timeout/4)
	}
	if cfg.Probe != nil {
		cfg.ProbeCount = cmp.Or(cfg.ProbeCount, 1)
		cfg.ProbeAfter = cmp.Or(cfg.ProbeAfter, cfg.Timeout/2)
		if cfg.ProbeCount > 0 {
			cfg.ProbeTimeout = cmp.Or(cfg.ProbeTimeout, max(0, cfg.Timeout-cfg.ProbeAfter)/time.Duration(cfg.ProbeCount))
		}
	}
	return cfg, errors.Join(cfg.checkSigns(), cfg.checkPolicies(), cfg.checkProbes(), cfg.checkRoom())
}

// check returns an error for an Activity that there is not, or not where sockets
// don't tell when bytes last arrived.
func (a Activity) check(socketsTell bool) error {
	if a < ActivityRead || a > ActivityKernel {
		return fmt.Errorf("%w: Activity %d, must be %d to %d", ErrArgument, a, ActivityRead, ActivityKernel)
	}
	if a == ActivityKernel && !socketsTell {
		return fmt.Errorf("%w: Activity %v, must be another on %s, whose sockets don't tell when bytes last arrived",
			ErrArgument, a, runtime.GOOS)
	}
	return nil
}
