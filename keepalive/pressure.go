package keepalive

import (
	"cmp"
	"math"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

// Pressure shortens timeouts as some resource runs out: the idlest make room in time. Timeouts
// stay as they are up to Low, shrink in proportion between Low and High, and are down to
// Timeout from High on.
type Pressure struct {
	// Used, if not nil, returns how much of the resource is in use, from 0 to 1. It is called
	// at most once a second, perhaps by several goroutines at the same time. Less than 0, and
	// NaN, count as 0; more than 1 counts as 1.
	Used func() float64

	// Low and High are the bounds, 0 < Low < High <= 1. Zero means 0.85 and 0.95, as in the
	// example of Envoy's overload manager.
	Low, High float64

	// Timeout is what Config.Timeout becomes under full pressure; a timeout of a connection's
	// own becomes shorter in proportion. If it is not zero, a shortage of descriptors is
	// pressure, too. Zero means a quarter of Config.Timeout if Used is set, and otherwise no
	// pressure at all.
	Timeout time.Duration
}

func (p *Pressure) setDefaults(timeout, tick time.Duration) {
	p.Low, p.High = cmp.Or(p.Low, 0.85), cmp.Or(p.High, 0.95)
	if p.Used != nil && p.Timeout == 0 {
		p.Timeout = max(tick, timeout/4)
	}
}

func (p Pressure) check(cfg Config) error {
	switch {
	case !(0 < p.Low && p.Low < p.High && p.High <= 1): // or one is not a number
		return wrong("Room.Pressure.Low %v and Room.Pressure.High %v, must be 0 < Low < High <= 1", p.Low, p.High)
	case p.Timeout > cfg.Timeout:
		return wrong("Room.Pressure.Timeout %v is longer than Timeout %v", p.Timeout, cfg.Timeout)
	case p.Timeout > 0 && p.Timeout < cfg.Tick:
		return wrong("Room.Pressure.Timeout %v is shorter than Tick %v", p.Timeout, cfg.Tick)
	}
	return notNegative("Room.Pressure.Timeout", p.Timeout)
}

// reduction returns how far timeouts are reduced for a share in use: 0 is the full timeout, 1
// the shortest.
func (p Pressure) reduction(used float64) float64 {
	switch {
	case used >= p.High:
		return 1
	case used > p.Low:
		return (used - p.Low) / (p.High - p.Low)
	}
	return 0
}

// gauge is the pressure measured last.
type gauge struct {
	next atomic.Int64 // when to measure again, by the wheel's time
	bits atomic.Uint64
}

// pressure returns how much timeouts are shortened: 0 not at all, 1 as much as can be. It
// measures once a second at most.
func (k *Keeper) pressure(p *policy, now time.Duration) float64 {
	if p.Room.Pressure.Timeout == 0 {
		return 0
	}
	if next := k.gauge.next.Load(); int64(now) >= next && k.gauge.next.CompareAndSwap(next, int64(now+time.Second)) {
		k.gauge.bits.Store(math.Float64bits(k.measure(p.Room.Pressure)))
	}
	return math.Float64frombits(k.gauge.bits.Load())
}

func (k *Keeper) measure(p Pressure) float64 {
	used := 0.0
	if p.Used != nil {
		k.call("Room.Pressure.Used", func() { used = p.Used() })
	}
	reduction := p.reduction(used)
	if descriptors, ok := rlimit.Used(); ok {
		reduction = max(reduction, p.reduction(descriptors))
	}
	return reduction
}
