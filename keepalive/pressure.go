package keepalive

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

// pressure is how short of something the process is: 0 not at all, 1 as much as can
// be. It is measured when the wheel comes to a connection, or somebody asks for Stats,
// once a second at most.
type pressure struct {
	measured atomic.Uint64 // one more than the tick of the last measurement
	bits     atomic.Uint64
}

func (s *pressure) now() float64 { return math.Float64frombits(s.bits.Load()) }

// reduction returns how much timeouts are shortened. It measures that itself, since the
// wheel may have no connection to come to, and it would stay what it was.
func (k *Keeper) reduction() float64 {
	p := k.policy.Load()
	if p.PressureTimeout == 0 {
		return 0
	}
	k.measurePressure(p)
	return k.pressure.now()
}

// measurePressure measures it where that is due.
func (k *Keeper) measurePressure(p *policy) {
	if p.PressureTimeout == 0 {
		return
	}
	now, last := k.pool.Now()+1, k.pressure.measured.Load()
	if last != 0 && now < last+k.ticks(time.Second) || !k.pressure.measured.CompareAndSwap(last, now) {
		return
	}
	used := 0.0
	if p.Pressure != nil {
		k.call("Pressure", func() { used = p.Pressure() })
	}
	reduction := p.pressure().Reduction(used)
	if descriptors, ok := rlimit.Used(); ok {
		reduction = max(reduction, p.pressure().Reduction(descriptors))
	}
	k.pressure.bits.Store(math.Float64bits(reduction))
}
