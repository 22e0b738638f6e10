package keepalive

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

const (
	defaultTimeout = time.Minute
	defaultTick    = 10 * time.Millisecond
	maxSleep       = 100 * time.Millisecond
	minTick        = time.Millisecond
	maxTick        = time.Hour
)

// Config is the config of a [Keeper]. The zero value is useful: a connection is closed
// after a minute of silence, and all else is off.
//
// No duration may be negative. Each may be too long by what Tick says, and is never too short. See
// [Keeper.Update] for the settings that can be changed later.
type Config struct {
	// Timeout is how long a connection may be silent. It is never closed earlier, and by default
	// at most 20ms later on a busy server, and 120ms on an idle one, see Tick. Timeout must be at
	// least 1ms. Zero means a minute.
	Timeout time.Duration

	// Tick is the precision. The Keeper wakes once per tick, and a connection is closed at most
	// two ticks late. Tick must be at least 1ms, and at most Timeout and an hour.
	//
	// Zero means 10ms, and costs as little as 100ms: the Keeper wakes only if something is due,
	// and each 100ms. In between, it learns the time from connections when they read. So on a
	// busy server a connection is closed at most 20ms late, and on an idle one 120ms. With a
	// Timeout below a second the Keeper sleeps for a tenth of it at most. Below 100ms the tick
	// is a tenth, too, but at least 1ms.
	Tick time.Duration

	// Activity is what counts as life. The zero value is ActivityRead.
	Activity Activity

	// FirstMessage is how long a new connection may take until its peer is heard for the first
	// time, by its Activity. Zero means Timeout.
	FirstMessage time.Duration

	// ReadIdle and WriteIdle are how long nothing may be read from a connection, and nothing be
	// written to it, whatever its Activity is. A write counts when the socket sends its bytes:
	// a large write to a slow peer is no silence as long as it gets on. On gnet both are for
	// TCP on Linux. Zero means for ever.
	ReadIdle, WriteIdle time.Duration

	// WriteStall is how long written bytes may wait for a peer that takes none of them. It counts whatever the peer says,
	// and while the connection is held. WriteIdle is about a program that writes nothing, and this is about a peer that
	// reads nothing. The connection is reset, without a farewell: that would have to wait, too. Zero means for ever.
	//
	// Bytes are taken when the peer acknowledges them. Only TCP on Linux tells, and of a peer that lives and has no room
	// for more bytes only to a quarter of a second and a round trip. Without that, as with a Unix socket or a connection
	// that shows no socket, a Write on net may take as long as WriteStall, though the peer may have taken some of its
	// bytes. Other frameworks then have no WriteStall.
	WriteStall time.Duration

	// MaxUnsent is how many bytes may wait to be sent to a peer: in the buffer of gnet, in the kernel for TCP on
	// Linux, and on net in calls of Write, each of which counts whole until it returns. So it should be more than the
	// program writes at once, and more than the kernel's send buffer, which a download fills. A connection with more is
	// reset as for WriteStall when the Keeper looks: every second while bytes wait, and else every ten seconds. Zero means
	// any number.
	MaxUnsent int

	// Unwrap returns the connection inside one of a type that hides it, or nil for any other
	// connection. The Keeper looks for the socket of a connection by the methods SyscallConn,
	// NetConn, as of a *tls.Conn, and Raw, as of a connection of go-proxyproto, at any depth. A
	// connection that shows no socket in any of these ways can't be asked what waits in it: see
	// Keeper.Listener. Unwrap may be called at any time by any goroutine, and must not block. Nil
	// means that there are no such types.
	Unwrap func(conn net.Conn) net.Conn

	Interval Interval // timeouts of a connection's own
	Probe    Probing  // asking a silent peer
	Age      Age      // the end of any connection
	Rate     Rate     // too many heartbeats, too few bytes
	Room     Room     // how many connections
	Closing  Closing  // how connections are closed

	// Checks are policies of the program's own, see Check. Nil means none, which costs nothing.
	Checks []Check

	// Advise counts silences by their length, see Stats.Silences. It costs some nanoseconds per touch, a lock of the
	// connection's after a silence of a tick, and a lock of the Keeper's after one of an eighth of the timeout. Keeper.Stats
	// looks at all connections for the silences that go on. Advise does not work with ActivityKernel.
	Advise bool

	// OnIdle is asked before a connection is closed for a silence: ReasonIdle,
	// ReasonFirstMessage, ReasonReadIdle, ReasonWriteIdle or ReasonNoAnswer. conn is the
	// connection as the program knows it. OnIdle is called by one of a few workers, and on gnet
	// in the connection's event loop. Nil means Close.
	OnIdle func(conn any, reason Reason) Verdict

	// OnRefuse, if not nil, returns the last words for a connection that is refused, for ReasonFull or ReasonDrain; see
	// httpkeepalive.Refuse. They are written when the peer has said something, or after half of Closing.Timeout: an HTTP
	// client takes no answer before it has asked. Then the connection stays until its peer has closed it, for
	// Closing.Timeout at most, and unguarded. Half of the descriptors that MaxConns spares are for such connections, and 1,024
	// at most. Of more, the first leaves early. conn is the connection inside, or
	// the gnet.Conn. OnRefuse is called by Accept and Keeper.Conn, by a Read behind a PROXY header, or in the event loop, and
	// must not block. It is for net on Unix systems, and for gnet, which writes them at once on Windows, unless the handler there
	// has an OnRefuse of its own. The
	// words are written below TLS: leave OnRefuse nil with TLS around the Keeper. TLS inside gets none.
	OnRefuse func(conn any, reason Reason) (words []byte)

	// OnClose is told of the end of each connection, once, and why. It runs on the goroutine
	// closing the connection: the caller of Close, a worker if the Keeper closes it, a
	// goroutine of its own after a farewell, and on gnet the event loop.
	OnClose func(conn any, reason Reason)

	// Logger gets a line per closed connection at Debug, and the progress of a drain at Info.
	// At Warn it gets refusals and evictions, and bytes waiting for this program to read them, each once
	// a minute at most, with the counts so far. It also gets a listener whose connections show no socket,
	// and the time lost while the process was stopped. At Error it
	// gets panics in functions of the user, and connections with a lost guard. Nil means
	// silence, but panics go to slog's default logger then.
	Logger *slog.Logger
}

// Validate returns the error of [New] for this config.
func (cfg Config) Validate() error {
	_, err := cfg.withDefaults()
	return err
}

// withDefaults returns the config with its defaults, or an error naming the fields, their
// values and the limit.
func (cfg Config) withDefaults() (Config, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	if cfg.Timeout < minTick {
		return cfg, wrong("Timeout %v, must be at least %v", cfg.Timeout, minTick)
	}
	if cfg.Tick == 0 {
		cfg.Tick = max(minTick, min(defaultTick, cfg.Timeout/10))
	}
	switch {
	case cfg.Tick < minTick:
		return cfg, wrong("Tick %v, must be at least %v", cfg.Tick, minTick)
	case cfg.Tick > maxTick:
		return cfg, wrong("Tick %v, must be at most %v", cfg.Tick, maxTick)
	case cfg.Tick > cfg.Timeout:
		return cfg, wrong("Tick %v is longer than Timeout %v", cfg.Tick, cfg.Timeout)
	}
	cfg.Interval.setDefaults()
	cfg.Probe.setDefaults(cfg.Timeout)
	cfg.Age.setDefaults()
	cfg.Rate.setDefaults()
	cfg.Room.setDefaults(cfg.Timeout, cfg.Tick)
	cfg.Closing.setDefaults()
	cfg.Checks = slices.Clone(cfg.Checks)
	return cfg, errors.Join(
		cfg.Activity.check(),
		notNegative("FirstMessage", cfg.FirstMessage),
		notNegative("ReadIdle", cfg.ReadIdle),
		notNegative("WriteIdle", cfg.WriteIdle),
		notNegative("WriteStall", cfg.WriteStall),
		within("MaxUnsent", cfg.MaxUnsent, math.MaxInt),
		cfg.Interval.check(),
		cfg.Probe.check(cfg),
		cfg.Age.check(),
		cfg.Rate.check(cfg.Activity),
		cfg.Room.check(cfg),
		cfg.Closing.check(),
		cfg.checkAdvise(),
		cfg.checkChecks(),
	)
}

func (cfg Config) checkAdvise() error {
	if cfg.Advise && cfg.Activity == ActivityKernel {
		return wrong("Advise with Activity %v, whose silences nobody sees begin", cfg.Activity)
	}
	return nil
}

// wrong returns an ErrArgument.
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrArgument}, args...)...)
}

func notNegative(name string, d time.Duration) error {
	if d < 0 {
		return wrong("%s %v, must not be negative", name, d)
	}
	return nil
}

// within checks a number against 0 and most.
func within(name string, n, most int) error {
	switch {
	case n < 0:
		return wrong("%s %d, must not be negative", name, n)
	case n > most:
		return wrong("%s %d, must be at most %d", name, n, most)
	}
	return nil
}

// maxCount bounds the counts of probes and strikes, far below their types' limits.
const maxCount = 100

// Interval bounds the timeouts of a connection's own.
type Interval struct {
	// Multiplier is how many of its own intervals a connection may be silent, see
	// [Guard.SetInterval]. Zero means 1.5, as in MQTT. It must be at least 1.
	Multiplier float64

	// Min and Max bound what a connection is given by [Guard.SetTimeout] and
	// [Guard.SetInterval]. Zero means no bound.
	Min, Max time.Duration
}

func (i *Interval) setDefaults() { i.Multiplier = cmp.Or(i.Multiplier, 1.5) }

func (i Interval) check() error {
	switch {
	case !(i.Multiplier >= 1) || math.IsInf(i.Multiplier, 0): // or not a number
		return wrong("Interval.Multiplier %v, must be at least 1", i.Multiplier)
	case i.Max > 0 && i.Min > i.Max:
		return wrong("Interval.Min %v is longer than Interval.Max %v", i.Min, i.Max)
	}
	return errors.Join(notNegative("Interval.Min", i.Min), notNegative("Interval.Max", i.Max))
}

// clamped returns a timeout of a connection's own within the bounds.
func (i Interval) clamped(d, tick time.Duration) time.Duration {
	d = max(d, i.Min, tick)
	if i.Max > 0 {
		d = min(d, i.Max)
	}
	return d
}

// Age says how old a connection may become, whatever its peer says.
type Age struct {
	// Max is the maximum age. Each connection has an age of its own, between Max and Jitter
	// less: connections of the same moment don't leave together. Zero means for ever.
	Max time.Duration

	// Jitter is a share of Max, less than 1. Zero means 0.1, negative means none.
	Jitter float64

	// Grace is how much longer a connection may stay to finish its work. It begins just before
	// OnMax is called.
	// Zero closes it at once, and a connection of net/http when its requests have ended, see package
	// httpkeepalive.
	Grace time.Duration

	// OnMax is told of a connection at its maximum age, or to be shed, before the grace: time for a last word
	// in its protocol. It is called like Config.OnIdle.
	OnMax func(conn any)
}

func (a *Age) setDefaults() { a.Jitter = cmp.Or(a.Jitter, 0.1) }

func (a Age) check() error {
	switch {
	case !(a.Jitter < 1):
		return wrong("Age.Jitter %v, must be less than 1", a.Jitter)
	case a.Max == 0 && a.Grace > 0:
		return wrong("Age.Grace %v without an Age.Max", a.Grace)
	}
	return errors.Join(notNegative("Age.Max", a.Max), notNegative("Age.Grace", a.Grace))
}

// Rate bounds how often, and how slowly, a peer may send, over ten seconds. A peer gets a
// strike for breaking a rule in ten seconds. Ten seconds without a breach clear its strikes.
type Rate struct {
	// MinBeat is the shortest time between two touches, on average. It does not work with
	// ActivityKernel, since no touches are counted there, and can't begin for open connections.
	// Zero means no bound.
	MinBeat time.Duration

	// MinBytes is how many bytes per second a peer has to send if it sends anything at all:
	// against a peer sending a byte now and then just to stay. On gnet it is for TCP on Linux.
	// Zero means any rate.
	MinBytes int

	// Strikes is how many strikes in a row close a connection, with ReasonTooMany or
	// ReasonTooSlow. Zero means 3; at most 100.
	Strikes int
}

func (r *Rate) setDefaults() { r.Strikes = cmp.Or(r.Strikes, 3) }

func (r Rate) check(activity Activity) error {
	if r.MinBeat > 0 && activity == ActivityKernel {
		return wrong("Rate.MinBeat %v with Activity %v, which counts no touches", r.MinBeat, activity)
	}
	return errors.Join(
		notNegative("Rate.MinBeat", r.MinBeat),
		within("Rate.MinBytes", r.MinBytes, math.MaxInt),
		within("Rate.Strikes", r.Strikes, maxCount),
	)
}

// Activity says what counts as life of a connection.
type Activity int

const (
	// ActivityRead counts the bytes read: for servers whose peers send heartbeats, or speak
	// first. Bytes moved by ReadFrom and WriteTo count in both directions, so a download by
	// io.Copy does not end because its peer has nothing to say. TLS has no ReadFrom, so io.Copy
	// calls Write. A Write that waits for the peer is no silence as long as the peer takes some of
	// its bytes, on TCP on Linux. For a download that waits for anything else, over TLS, see
	// Guard.Hold and ActivityReadWrite.
	ActivityRead Activity = iota

	// ActivityReadWrite also counts the bytes acknowledged by the peer: for servers whose peers
	// only listen. A vanished peer acknowledges nothing. Only TCP on Linux tells; elsewhere,
	// each write counts if the socket takes it.
	ActivityReadWrite

	// ActivityManual counts nothing but Touch: for servers that want whole messages. A byte now
	// and then keeps no connection.
	ActivityManual

	// ActivityKernel is ActivityRead without any work per read: the kernel knows when bytes
	// last arrived, and is asked when the deadline has passed. Bytes count when they arrive,
	// read or not. A silent connection is closed up to seven jiffies later (7 to 70 ms), since
	// the kernel is no more precise. It is for TCP on Linux; elsewhere New returns ErrArgument.
	// Some sockets can't tell (a Unix socket, MPTCP, a net.Pipe): their connections are kept as
	// with ActivityRead, and the first one is logged.
	ActivityKernel
)

var activityNames = [...]string{"read", "readwrite", "manual", "kernel"}

func (a Activity) String() string {
	if a < 0 || int(a) >= len(activityNames) {
		return fmt.Sprintf("Activity(%d)", int(a))
	}
	return activityNames[a]
}

func (a Activity) check() error { return a.checkOn(socketsTell) }

// checkOn is check for a system with or without sockets that tell when bytes last arrived.
func (a Activity) checkOn(socketsTell bool) error {
	if a < ActivityRead || a > ActivityKernel {
		return wrong("Activity %d, must be %d to %d", a, ActivityRead, ActivityKernel)
	}
	if a == ActivityKernel && !socketsTell {
		return wrong("Activity %v, must be another on %s, whose sockets don't tell when bytes last arrived", a, runtime.GOOS)
	}
	return nil
}

// life returns what counts as life of a connection. tells reports whether its socket knows when
// bytes last arrived.
func (a Activity) life(tells bool) rules.Life {
	switch {
	case a == ActivityReadWrite:
		return rules.ReadsWrite
	case a == ActivityManual:
		return rules.Touches
	case a == ActivityKernel && tells:
		return rules.Arrivals
	}
	return rules.Reads
}

// Closing says how the Keeper closes connections.
type Closing struct {
	// Farewell returns the last bytes for a connection closed by the Keeper. They go straight to the connection inside: a
	// peer behind TLS above the Keeper would take them for a broken record, so leave Farewell nil there. Nil, or no
	// bytes, means none.
	Farewell func(conn any, reason Reason) []byte

	// Timeout bounds the farewell: how long its bytes may take to leave, and with CloseHalf
	// also how long the peer has to close its side. On gnet, bytes waiting for a slow peer have
	// to leave before the farewell. Zero means a second.
	Timeout time.Duration

	// Mode is how a connection is closed. The zero value is CloseGraceful.
	Mode CloseMode

	// MaxPerSecond bounds how many connections the policies close in a second. The others wait,
	// in no particular order, and a heartbeat before the close cancels it. Evictions don't wait.
	// Zero means any number.
	MaxPerSecond int

	// DryRun closes nobody, but for Drain, Shed and Guard.Close. A connection due to be closed by a policy is counted and left
	// alone: once for a silence, until the peer is heard again, once for WriteStall, until it takes something, once for
	// Age, and for Rate, MaxUnsent and a Check each time that they would close it. Age.OnMax is not called. Evictions
	// are only counted, too, so there may be 64 more connections than Room.MaxConns. See Stats.WouldClose and
	// Stats.Silences.
	DryRun bool
}

func (c *Closing) setDefaults() { c.Timeout = cmp.Or(c.Timeout, time.Second) }

func (c Closing) check() error {
	var mode error
	if c.Mode < CloseGraceful || c.Mode > CloseReset {
		mode = wrong("Closing.Mode %d, must be %d to %d", c.Mode, CloseGraceful, CloseReset)
	}
	return errors.Join(
		mode,
		notNegative("Closing.Timeout", c.Timeout),
		within("Closing.MaxPerSecond", c.MaxPerSecond, 1e9),
	)
}

// CloseMode is how a Keeper closes a connection.
type CloseMode int

const (
	// CloseGraceful closes a connection as its Close does: bytes written before still leave. On
	// gnet, bytes waiting for a silent peer are dropped, unless there is a farewell.
	CloseGraceful = CloseMode(adapter.Graceful)

	// CloseHalf ends our side first, and closes the connection when the peer has ended its own,
	// or after Closing.Timeout. So a peer can read the farewell even while it is still sending;
	// a reset would take the farewell away.
	CloseHalf = CloseMode(adapter.Half)

	// CloseReset drops unsent bytes and resets the connection: the kernel keeps nothing of it.
	CloseReset = CloseMode(adapter.Reset)
)

var closeModeNames = [...]string{"graceful", "half", "reset"}

func (m CloseMode) String() string {
	if m < 0 || int(m) >= len(closeModeNames) {
		return fmt.Sprintf("CloseMode(%d)", int(m))
	}
	return closeModeNames[m]
}
