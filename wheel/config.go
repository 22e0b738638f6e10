package wheel

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

var (
	// ErrClosed says that the wheel has been stopped.
	ErrClosed = errors.New("wheel: closed")

	// ErrArgument says that an argument is outside of what is possible. The
	// error that wraps it names the value and the limit.
	ErrArgument = errors.New("wheel: invalid argument")

	// ErrNotFound says that a key has no pending timer: it was never set, or it
	// has expired or been removed.
	ErrNotFound = errors.New("wheel: key not pending")
)

const (
	defaultTick    = 100 * time.Millisecond
	defaultWorkers = 64

	// minTick is where a tick no longer is long compared with the 60 to 500 µs
	// by which an operating system wakes a sleeper late.
	minTick = time.Millisecond

	// maxRevolution bounds the ticks of one turn of the top level.
	maxRevolution = 1<<31 - 1

	// maxSlots bounds the memory that a typing error in Levels can ask for.
	maxSlots = 1 << 24
)

// defaultLevels spans 51 seconds, 55 minutes and 58 hours at the default tick,
// with 640 slots. What lies beyond stays in the top level for several turns.
var defaultLevels = []int{512, 64, 64}

// Config is what a wheel can be told. The zero value is useful.
type Config struct {
	// Tick is the length of a tick: how precise the wheel is, and how often it
	// wakes. Zero means 100ms; less than 1ms is an error.
	Tick time.Duration

	// Levels are the numbers of slots of each level, the finest first. A slot of
	// the first level is one tick, and a slot of any other is a whole turn of
	// the level below. With a tick of a second, {60, 60, 24, 7} are seconds,
	// minutes, hours and days: 151 slots for a week. Delays may be longer than a
	// turn of the top level. Nil means {512, 64, 64}.
	Levels []int

	// Stall is the length from which a gap between two wakings of the hand is no
	// slowness but a stall: a suspended machine, a stopped process. A stall is
	// not counted in anybody's delay, and for as long again nothing expires, so
	// that what has arrived meanwhile can be read. Where the clock of package time
	// stands still while the machine is suspended, that is noticed on Linux; on
	// other systems it counts in no delay, but there is neither time to read nor a
	// report. Zero means a second or ten ticks, whichever is longer; negative means
	// that all time counts that the clock knows of.
	Stall time.Duration

	// Workers is how many expired timers may be run at the same time. There are
	// at first as many as there are processors, and twice as many each tick while
	// those block. The goroutines exist only while there is something to run. Zero
	// means 64.
	Workers int

	// OnPanic is told when a function of the user has panicked, with the value
	// and the stack. It may be called by several goroutines at the same time.
	// Nil means one line at level Error on slog's default logger.
	OnPanic func(value any, stack []byte)

	// OnStall is told how long a stall was, when it is over. It is called on a
	// goroutine of its own. Nil means nobody.
	OnStall func(lost time.Duration)
}

// withDefaults returns the config with each zero replaced by what it means, or
// an error that names the value and its limit.
func (cfg Config) withDefaults() (Config, error) {
	if cfg.Tick == 0 {
		cfg.Tick = defaultTick
	}
	if cfg.Tick < minTick {
		return cfg, fmt.Errorf("%w: Tick %v, must be at least %v", ErrArgument, cfg.Tick, minTick)
	}
	if cfg.Levels == nil {
		cfg.Levels = defaultLevels
	}
	if err := checkLevels(cfg.Levels); err != nil {
		return cfg, err
	}
	cfg.Levels = slices.Clone(cfg.Levels)
	if cfg.Stall == 0 {
		cfg.Stall = max(time.Second, 10*cfg.Tick)
	}
	if cfg.Stall > 0 && cfg.Stall < 2*cfg.Tick {
		return cfg, fmt.Errorf("%w: Stall %v, must be at least two ticks (Tick %v), or negative for never",
			ErrArgument, cfg.Stall, cfg.Tick)
	}
	if cfg.Workers < 0 {
		return cfg, fmt.Errorf("%w: Workers %d, must not be negative", ErrArgument, cfg.Workers)
	}
	if cfg.Workers == 0 {
		cfg.Workers = defaultWorkers
	}
	if cfg.OnPanic == nil {
		cfg.OnPanic = logPanic
	}
	return cfg, nil
}

func checkLevels(levels []int) error {
	if len(levels) == 0 {
		return fmt.Errorf("%w: Levels is empty, must have at least one level", ErrArgument)
	}
	turn, total := 1, 0
	for i, slots := range levels {
		if slots < 1 {
			return fmt.Errorf("%w: level %d has %d slots, must have at least 1", ErrArgument, i, slots)
		}
		if slots > maxSlots || total+slots > maxSlots {
			return fmt.Errorf("%w: levels %v have more than %d slots", ErrArgument, levels, maxSlots)
		}
		if turn > maxRevolution/slots {
			return fmt.Errorf("%w: a turn of levels %v is longer than %d ticks", ErrArgument, levels, maxRevolution)
		}
		turn *= slots
		total += slots
	}
	return nil
}

func logPanic(value any, stack []byte) {
	slog.Default().Error("wheel: callback panicked", "panic", value, "stack", string(stack))
}

// Option changes a setting of [NewTimingWheel].
type Option func(*Config)

// WithLevels puts levels above the first one, each with the given number of
// slots; see [Config.Levels]. With an interval of a second and 60 slots,
// WithLevels(60, 24, 7) adds minutes, hours and days.
func WithLevels(slots ...int) Option {
	return func(cfg *Config) { cfg.Levels = append(cfg.Levels[:1:1], slots...) }
}

// WithStall sets [Config.Stall].
func WithStall(d time.Duration) Option {
	return func(cfg *Config) { cfg.Stall = d }
}

// WithWorkers sets [Config.Workers].
func WithWorkers(n int) Option {
	return func(cfg *Config) { cfg.Workers = n }
}

// WithPanicHandler sets [Config.OnPanic].
func WithPanicHandler(f func(value any, stack []byte)) Option {
	return func(cfg *Config) { cfg.OnPanic = f }
}

// WithStallHandler sets [Config.OnStall].
func WithStallHandler(f func(lost time.Duration)) Option {
	return func(cfg *Config) { cfg.OnStall = f }
}
