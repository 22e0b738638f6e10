package wheel

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/argument"
)

var (
	// ErrClosed is the error of a call after Stop.
	ErrClosed = errors.New("wheel: closed")

	// ErrArgument is the error for an argument out of bounds. The wrapping error names the
	// value and the limit.
	ErrArgument error = argument.Error("wheel")

	// ErrNotFound is the error for a key not pending: never set, expired or removed.
	ErrNotFound = errors.New("wheel: key not pending")
)

const (
	defaultTick    = 100 * time.Millisecond
	defaultWorkers = 64

	// minTick is still long beside the 60 to 500 µs between a sleeper's instant and its
	// waking by the operating system.
	minTick = time.Millisecond

	// maxTick is the longest tick of which ten, the default of Stall, are a duration.
	maxTick = math.MaxInt64 / 10

	// maxRevolution bounds the ticks of one revolution of the top level.
	maxRevolution = 1<<31 - 1

	// maxSlots bounds the memory cost of a typing error in Levels.
	maxSlots = 1 << 24
)

// defaultLevels spans 51 seconds, 55 minutes and 58 hours at the default tick, with 1218
// slots. A longer delay stays in the top level for several revolutions.
var defaultLevels = []int{512, 64, 64}

// Config is the config of a wheel. The zero value is useful.
type Config struct {
	// Tick is the length of a tick: how precise the wheel is, and how often it wakes at most.
	// Zero means 100ms. Less than 1ms or more than 29 years is an error.
	Tick time.Duration

	// MaxSleep is how long the hand may sleep while no timer is due, rounded down to whole
	// ticks. A longer sleep costs fewer wakings. It delays no due timer, but it makes
	// touches less exact: the deadline of a touch during the sleep may be late by up to
	// MaxSleep, or by as long as nobody calls [WheelOf.Now] after it, if that is shorter. Zero
	// means a tick. It must not be longer than a revolution of the first level, nor than half a
	// Stall.
	MaxSleep time.Duration

	// Levels are the revolutions of each level, the finest first, in slots. A slot of the
	// first level is one tick. A slot of a higher level is a whole revolution of the level
	// below. With a tick of a second, {60, 60, 24, 7} are seconds, minutes, hours and days.
	// Each level below the top has slots for two revolutions. The top has slots for one, and
	// two more: 297 slots for this week. Delays may be longer than a revolution of the top
	// level. Nil means {512, 64, 64}.
	Levels []int

	// Stall is the longest gap between two wakings of the hand that counts as slowness. A
	// longer gap is a stall: a suspended machine, a stopped process. A stall counts in no
	// timer's delay. After it comes a grace, as long as Stall: nothing expires, and the
	// program has time to read the bytes that arrived meanwhile.
	//
	// The clock of package time may stand still while the machine is suspended. On Linux
	// the wheel notices a suspension. On other systems it counts in no delay either, but
	// there is no grace and no report.
	//
	// Zero means a second or ten ticks, whichever is longer. Less than two ticks is an
	// error. Negative means no stalls: all time counts.
	Stall time.Duration

	// Workers is how many due timers may be run at the same time. At first there are as
	// many workers as processors, and at least two. While they block, their number doubles
	// each tick. The goroutines exist only while there is something to run. Zero means 64.
	Workers int

	// OnPanic is told of a panic in a function of the user, with the value and the stack. It
	// may be called concurrently. Nil means one line at level Error
	// on slog's default logger.
	OnPanic func(value any, stack []byte)

	// OnStall is told the length of a stall after its end. It is called on a goroutine of its
	// own. Nil means nobody.
	OnStall func(lost time.Duration)
}

// withDefaults returns the config with its defaults, or an error with the value and its
// limit.
func (cfg Config) withDefaults() (Config, error) {
	cfg.Tick = cmp.Or(cfg.Tick, defaultTick)
	cfg.Stall = cmp.Or(cfg.Stall, max(time.Second, 10*cfg.Tick))
	cfg.Workers = cmp.Or(cfg.Workers, defaultWorkers)
	if cfg.Levels == nil {
		cfg.Levels = defaultLevels
	}
	if cfg.OnPanic == nil {
		cfg.OnPanic = logPanic
	}
	switch {
	case cfg.Tick < minTick:
		return cfg, fmt.Errorf("%w: Tick %v, must be at least %v", ErrArgument, cfg.Tick, minTick)
	case cfg.Tick > maxTick:
		return cfg, fmt.Errorf("%w: Tick %v, must be at most %v", ErrArgument, cfg.Tick, time.Duration(maxTick))
	case cfg.Stall > 0 && cfg.Stall < 2*cfg.Tick:
		return cfg, fmt.Errorf("%w: Stall %v, must be at least two ticks (Tick %v), or negative for never",
			ErrArgument, cfg.Stall, cfg.Tick)
	case cfg.Workers < 0:
		return cfg, fmt.Errorf("%w: Workers %d, must not be negative", ErrArgument, cfg.Workers)
	}
	if err := checkLevels(cfg.Levels); err != nil {
		return cfg, err
	}
	switch revolution := time.Duration(min(int64(cfg.Levels[0]), math.MaxInt64/int64(cfg.Tick))) * cfg.Tick; {
	case cfg.MaxSleep < 0:
		return cfg, fmt.Errorf("%w: MaxSleep %v, must not be negative", ErrArgument, cfg.MaxSleep)
	case cfg.MaxSleep > revolution:
		return cfg, fmt.Errorf("%w: MaxSleep %v, must be at most %v, a revolution of the first level", ErrArgument, cfg.MaxSleep, revolution)
	case cfg.Stall > 0 && cfg.MaxSleep > cfg.Stall/2:
		return cfg, fmt.Errorf("%w: MaxSleep %v, must be at most half of Stall %v", ErrArgument, cfg.MaxSleep, cfg.Stall)
	}
	return cfg, nil
}

func checkLevels(levels []int) error {
	if len(levels) == 0 {
		return fmt.Errorf("%w: Levels is empty, must have at least one level", ErrArgument)
	}
	revolution, total := 1, 0
	for i, slots := range levels {
		if slots < 1 {
			return fmt.Errorf("%w: level %d has %d slots, must have at least 1", ErrArgument, i, slots)
		}
		if slots > maxSlots || total+slots > maxSlots {
			return fmt.Errorf("%w: levels %v have more than %d slots", ErrArgument, levels, maxSlots)
		}
		if revolution > maxRevolution/slots {
			return fmt.Errorf("%w: a revolution of levels %v is longer than %d ticks", ErrArgument, levels, maxRevolution)
		}
		revolution *= slots
		total += slots
	}
	return nil
}

func logPanic(value any, stack []byte) {
	slog.Default().Error("wheel: callback panicked", "panic", value, "stack", string(stack))
}
