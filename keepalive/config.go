package keepalive

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

const (
	defaultTimeout = time.Minute
	defaultTick    = 100 * time.Millisecond
	minTick        = time.Millisecond
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

// Config is what a [Keeper] can be told. The zero value is useful.
type Config struct {
	// Timeout is how long a connection may be silent. It is never closed before
	// that has passed, and at most two ticks after. Zero means a minute.
	Timeout time.Duration

	// Tick is how precise that is. Zero means 100ms, or a tenth of a Timeout
	// that is shorter than a second. It must not be shorter than 1ms or longer
	// than Timeout.
	Tick time.Duration

	// Activity is what counts as life. The zero value is ActivityRead.
	Activity Activity

	// MaxConns is how many connections are kept. One more is closed as soon as
	// it has been accepted. Zero means any number.
	MaxConns int

	// OnIdle is asked what to do with a connection whose deadline has passed:
	// Close, or Extend by some time. conn is what Touch would be given. It is
	// called by one of a few workers, and on gnet in the connection's event
	// loop. Nil means Close.
	OnIdle func(conn any) Verdict

	// OnClose is told that a connection is closed, once for each, and why. It is
	// called where the connection was closed: on the goroutine that called
	// Close, by a worker for an idle one, and on gnet in the event loop.
	OnClose func(conn any, reason Reason)

	// Logger gets a line per idle connection at Debug, a warning when the
	// process was stopped for a while or ActivityKernel does not work for a
	// connection, and an error for each function of the user that panicked. Nil
	// means silence, but panics go to slog's default logger then.
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
	if cfg.Tick > cfg.Timeout {
		return cfg, fmt.Errorf("%w: Tick %v is longer than Timeout %v", ErrArgument, cfg.Tick, cfg.Timeout)
	}
	if err := cfg.Activity.check(socketsTell); err != nil {
		return cfg, err
	}
	if cfg.MaxConns < 0 {
		return cfg, fmt.Errorf("%w: MaxConns %d, must not be negative", ErrArgument, cfg.MaxConns)
	}
	return cfg, nil
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
