package connpool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"time"
)

var (
	// ErrClosed says that the pool, or its [Group], has been closed.
	ErrClosed = errors.New("connpool: closed")

	// ErrReturned says that a [Lease] is void: it was put back, dropped or taken
	// before, or it is the zero Lease.
	ErrReturned = errors.New("connpool: lease has been returned before")

	// ErrArgument says that an argument is outside of what is possible. The
	// error that wraps it names the values and the limit.
	ErrArgument = errors.New("connpool: invalid argument")
)

const (
	defaultIdleTime    = 30 * time.Second
	defaultJitter      = 0.1
	defaultDialTimeout = 30 * time.Second

	// never is a time that does not come.
	never = math.MaxInt64
)

// Config is what a [Pool] can be told. Dial is required.
//
// The functions are called with no lock held and may call the pool, except for
// Close of the pool and of its Group, which wait for those that the pool has called
// itself. A panic in Check or CheckPut that Get or Put has called goes on to their
// caller, after the connection was closed; any other is reported, see
// [wheel.Config].OnPanic.
type Config[T any] struct {
	// Dial opens a connection. Its context ends after DialTimeout, and when the pool
	// is closed or reset; it is not that of a Get, since another one may get the connection.
	// It is called on goroutines of the pool's, several at the same time.
	Dial func(ctx context.Context) (T, error)

	// Close closes a connection. Until it has returned, the connection counts in
	// MaxOpen. Nil means the connection's own method Close.
	Close func(c T, why Reason)

	// MaxOpen is how many connections there may be, of any kind: idle, in use, being
	// dialed, being closed. Get waits when there are as many. Zero means any number.
	MaxOpen int

	// MaxIdle is how many may be idle. If there is one more, the idlest is closed.
	// Zero means any number.
	MaxIdle int

	// MinIdle is how many are kept idle, ready for the next Get, however long nobody
	// needs them. They are dialed in the background, one at a time, and after a
	// failure with a pause: 0.25s at first, twice that each time, 30s at most, or at
	// random down to half of that. Without a Check nobody notices that the server has
	// closed them. Zero means none.
	MinIdle int

	// MaxIdleTime is how long a connection may be idle. It is closed at most two ticks
	// after that, unless there are no more idle ones than MinIdle. Those that stay for
	// that reason are checked then, and each MaxIdleTime after that. It should be
	// shorter than the time that the server grants. Zero means 30s, negative for ever.
	MaxIdleTime time.Duration

	// MaxAge is how long a connection may exist. It is closed when it is idle then, or
	// when it comes back. Each has an age of its own, between MaxAge and MaxAgeJitter
	// less, so that those that came together don't leave together. Zero means for ever.
	MaxAge time.Duration

	// MaxAgeJitter is a share of MaxAge. Zero means 0.1, negative means none; it must
	// be less than 1.
	MaxAgeJitter float64

	// DialTimeout bounds a dial, and a check of a connection that stays for MinIdle.
	// Zero means 30s, negative for ever.
	DialTimeout time.Duration

	// Check is asked about an idle connection before Get returns it; an error means
	// that it is closed, and Get goes on with another. Its context is that of Get.
	// [Alive] is one that asks only the socket. Nil means no check.
	Check func(ctx context.Context, c T) error

	// CheckAfter is for how long a connection must have been idle to be checked, to
	// one or two ticks. Zero means always.
	CheckAfter time.Duration

	// CheckPut is asked about each connection that is put back; an error means that
	// it is closed. It may also undo what the user has done to the connection, such as
	// a deadline. Its context ends when the pool is closed. Nil means no check.
	CheckPut func(ctx context.Context, c T) error

	// Group is with whom the pool shares its wheel. Nil means a wheel of its own, with
	// a tick of 100ms, or a tenth of a MaxIdleTime, MaxAge or CheckAfter that is shorter
	// than a second.
	Group *Group
}

// withDefaults returns the config with each zero replaced by what it means, or an
// error that names the value and its limit.
func (cfg Config[T]) withDefaults() (Config[T], error) {
	if err := cfg.check(); err != nil {
		return cfg, err
	}
	if cfg.Close == nil {
		cfg.Close = func(c T, _ Reason) { _ = any(c).(io.Closer).Close() }
	}
	cfg.MaxIdleTime = orNever(cfg.MaxIdleTime, defaultIdleTime)
	cfg.MaxAge = orNever(cfg.MaxAge, never)
	cfg.DialTimeout = orNever(cfg.DialTimeout, defaultDialTimeout)
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

// orNever returns what a duration of the config means.
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
	case !(cfg.MaxAgeJitter < 1): // also where it is not a number
		return fmt.Errorf("%w: MaxAgeJitter %v, must be less than 1", ErrArgument, cfg.MaxAgeJitter)
	case cfg.CheckAfter < 0:
		return fmt.Errorf("%w: CheckAfter %v, must not be negative", ErrArgument, cfg.CheckAfter)
	case cfg.CheckAfter > 0 && cfg.Check == nil:
		return fmt.Errorf("%w: CheckAfter %v, and Check is nil", ErrArgument, cfg.CheckAfter)
	}
	return nil
}
