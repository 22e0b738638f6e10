package connpool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/argument"
)

var (
	// ErrClosed is the error after Close of the pool or of its [Group].
	ErrClosed = errors.New("connpool: closed")

	// ErrReturned is the error of a void [Lease]: it was put back, dropped or taken before,
	// or it is the zero Lease.
	ErrReturned = errors.New("connpool: lease has been returned before")

	// ErrArgument is the error for an argument out of bounds. The wrapping error names the
	// values and the limit.
	ErrArgument error = argument.Error("connpool")
)

const (
	defaultIdleTime     = 30 * time.Second
	defaultJitter       = 0.1
	defaultDialTimeout  = 30 * time.Second
	defaultCheckTimeout = time.Second
	defaultWorkers      = 64 // as many as a wheel's

	// never stands for no deadline.
	never = math.MaxInt64
)

// Config is the config of a [Pool]. Dial is required.
//
// The functions are called with no lock held and may call the pool, except for Close and Shutdown
// of the pool and of its Group: they wait for the functions called by the pool itself. If a Check
// or CheckPut panics in Get or Put, the connection is closed, and the value of the panic goes on to
// their caller. Any other panic is reported, see [wheel.Config].OnPanic.
type Config[T any] struct {
	// Dial opens a connection. Its context ends after DialTimeout, and when the pool is
	// closed or reset. It is not the context of a Get, since another Get may receive the
	// connection. Dial is called on goroutines of the pool, several at the same time.
	Dial func(ctx context.Context) (T, error)

	// Close closes a connection. Until it has returned, the connection counts in
	// MaxOpen. It is called for several connections at the same time: by Drop and by a Put that
	// keeps nothing for the caller's own, and on goroutines of the pool for all others. Nil
	// means the connection's own method Close.
	Close func(c T, why Reason)

	// MaxOpen is how many connections there may be, of any kind: idle, in use, being
	// dialed, being closed. If there are as many, Get waits. Zero means any number.
	MaxOpen int

	// MaxIdle is how many may be idle. If there is one more, the idlest is closed.
	// Zero means any number.
	MaxIdle int

	// MinIdle is how many connections are kept idle, ready for the next Get, however long
	// nobody needs them. They are dialed in the background, one at a time. After a failed
	// dial there is a pause: 0.25s at first, then twice the last one, up to 30s, and each
	// shortened at random by up to half. Without a Check nobody notices if the server has
	// closed them. Zero means none.
	MinIdle int

	// MaxIdleTime is how long a connection may be idle. It is closed at most two ticks
	// later, unless fewer than MinIdle idle connections would remain. Then it stays, and is
	// checked at once, and again after each MaxIdleTime. Set it shorter than the idle
	// timeout of the server. Zero means 30s, negative for ever.
	MaxIdleTime time.Duration

	// MaxAge is how long a connection may exist. A connection of that age is closed if it
	// is idle, or when it comes back. Each has an age of its own, between MaxAge and
	// MaxAgeJitter less: connections of the same moment don't leave together. Zero means
	// for ever.
	MaxAge time.Duration

	// MaxAgeJitter is a share of MaxAge. Zero means 0.1, negative means none; it must
	// be less than 1.
	MaxAgeJitter float64

	// DialTimeout bounds a dial. Zero means 30s, negative for ever.
	DialTimeout time.Duration

	// Check is asked about an idle connection before Get returns it. After an error the
	// connection is closed, and Get goes on with another. Check should heed its context, see
	// CheckTimeout. [Alive] is a check of the socket alone. Nil means no check.
	Check func(ctx context.Context, c T) error

	// CheckTimeout bounds the context of a Check or CheckPut. All checks of one Get have
	// CheckTimeout together, and at most half of what the context of Get leaves: it is a
	// context inside that one. When it ends, Get asks no other idle connection, and waits for a
	// dial or for a connection put back. So peers that have vanished without a word make a Get
	// slower, and fail none. Zero means 1s. Negative means the whole context of Get, and in
	// the background and in Put for ever.
	//
	// A check that has not returned 0.5s after the end of its context hangs. The connection is
	// closed under it, and nobody waits for it any longer. To this end checks other than Alive run on
	// a goroutine of their own, for a microsecond or two. While as many checks of the pool hang as
	// its Group has workers, no more are begun, and connections that would need a check are closed.
	CheckTimeout time.Duration

	// CheckAfter is how long a connection must have been idle to be checked, to one or two
	// ticks. Zero means always.
	CheckAfter time.Duration

	// CheckPut is asked about each connection put back. After an error the connection is
	// closed. CheckPut may also undo the user's changes to the connection, such as a
	// deadline. Its context ends after CheckTimeout, and when the pool is closed. Nil means no
	// check.
	CheckPut func(ctx context.Context, c T) error

	// LeakAfter is how long a lease may be out before it is reported to OnLeak, not early, and at most
	// two ticks late. Its connection stays in use. The stack of each Get is kept for the report, which
	// costs half a microsecond and an allocation. Set LeakAfter longer than the longest use. Zero
	// means no reports.
	LeakAfter time.Duration

	// OnLeak is told of each lease that is out for longer than LeakAfter, and again when it comes
	// back. It is called in the background, for several leases at the same time. Nil means a line
	// on slog's default logger: Warn, and Info for a return.
	OnLeak func(Leak[T])

	// Group shares its wheel with the pool. Nil means a wheel of the pool's own. Its tick
	// is 100ms, or a tenth of the shortest MaxIdleTime, MaxAge, LeakAfter or CheckAfter below a
	// second.
	Group *Group
}

// withDefaults returns the config with its defaults, or an error with the value and its
// limit.
func (cfg Config[T]) withDefaults() (Config[T], error) {
	if err := cfg.check(); err != nil {
		return cfg, err
	}
	if cfg.Close == nil {
		cfg.Close = func(c T, _ Reason) { _ = any(c).(io.Closer).Close() }
	}
	if cfg.OnLeak == nil {
		cfg.OnLeak = logLeak[T]
	}
	cfg.MaxIdleTime = orNever(cfg.MaxIdleTime, defaultIdleTime)
	cfg.MaxAge = orNever(cfg.MaxAge, never)
	cfg.LeakAfter = orNever(cfg.LeakAfter, never)
	cfg.DialTimeout = orNever(cfg.DialTimeout, defaultDialTimeout)
	cfg.CheckTimeout = orNever(cfg.CheckTimeout, defaultCheckTimeout)
	if cfg.MaxOpen == 0 {
		cfg.MaxOpen = math.MaxInt
	}
	if cfg.MaxIdle == 0 {
		cfg.MaxIdle = math.MaxInt
	}
	if cfg.MaxAgeJitter == 0 {
		cfg.MaxAgeJitter = defaultJitter
	}
	return cfg, nil
}

// orNever returns the meaning of a duration in the config.
func orNever(d, zero time.Duration) time.Duration {
	switch {
	case d == 0:
		return zero
	case d < 0:
		return never
	default:
		return d
	}
}

func (cfg Config[T]) check() error {
	of := reflect.TypeFor[T]()
	switch {
	case cfg.Dial == nil:
		return fmt.Errorf("%w: Dial is nil", ErrArgument)
	case cfg.Close == nil && !of.Implements(reflect.TypeFor[io.Closer]()):
		return fmt.Errorf("%w: Close is nil, and %v has no method Close", ErrArgument, of)
	case cfg.MaxOpen < 0:
		return fmt.Errorf("%w: MaxOpen %d, must not be negative", ErrArgument, cfg.MaxOpen)
	case cfg.MaxIdle < 0:
		return fmt.Errorf("%w: MaxIdle %d, must not be negative", ErrArgument, cfg.MaxIdle)
	case cfg.MinIdle < 0:
		return fmt.Errorf("%w: MinIdle %d, must not be negative", ErrArgument, cfg.MinIdle)
	case cfg.MaxOpen > 0 && cfg.MinIdle > cfg.MaxOpen:
		return fmt.Errorf("%w: MinIdle %d is more than MaxOpen %d", ErrArgument, cfg.MinIdle, cfg.MaxOpen)
	case cfg.MaxIdle > 0 && cfg.MinIdle > cfg.MaxIdle:
		return fmt.Errorf("%w: MinIdle %d is more than MaxIdle %d", ErrArgument, cfg.MinIdle, cfg.MaxIdle)
	case cfg.MaxAge < 0:
		return fmt.Errorf("%w: MaxAge %v, must not be negative", ErrArgument, cfg.MaxAge)
	case !(cfg.MaxAgeJitter < 1): // NaN included
		return fmt.Errorf("%w: MaxAgeJitter %v, must be less than 1", ErrArgument, cfg.MaxAgeJitter)
	case cfg.LeakAfter < 0:
		return fmt.Errorf("%w: LeakAfter %v, must not be negative", ErrArgument, cfg.LeakAfter)
	case cfg.OnLeak != nil && cfg.LeakAfter == 0:
		return fmt.Errorf("%w: OnLeak is set, and LeakAfter is 0", ErrArgument)
	case cfg.CheckAfter < 0:
		return fmt.Errorf("%w: CheckAfter %v, must not be negative", ErrArgument, cfg.CheckAfter)
	case cfg.CheckAfter > 0 && cfg.Check == nil:
		return fmt.Errorf("%w: CheckAfter %v, and Check is nil", ErrArgument, cfg.CheckAfter)
	case cfg.CheckTimeout != 0 && cfg.Check == nil && cfg.CheckPut == nil:
		return fmt.Errorf("%w: CheckTimeout %v, and both Check and CheckPut are nil", ErrArgument, cfg.CheckTimeout)
	}
	return nil
}
