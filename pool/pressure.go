package pool

import (
	"cmp"
	"fmt"
)

// What a [Pressure] uses that was not told another: the thresholds of reduce_timeouts
// in the example of Envoy's overload manager.
const (
	defaultLow  = 0.85
	defaultHigh = 0.95
)

// Pressure says how much shorter timeouts become as some resource runs out, so that
// the idlest make room before there is none: not at all up to Low, as much as they
// may from High on, and in proportion between. The zero Pressure has no resource,
// and so does nothing.
//
// Its methods may be called by several goroutines at the same time.
type Pressure struct {
	// Of returns how much of the resource is in use: 0 none, 1 all. What is not a
	// number counts as 0, so that a reading that fails ends nobody's connection; less
	// than 0 counts as 0, more than 1 as 1. Nil means that there is no pressure. It
	// may be called by several goroutines at the same time.
	Of func() float64

	// Low is the use up to which timeouts are whole. Zero means 0.85.
	Low float64

	// High is the use from which on timeouts are the shortest. Zero means 0.95. It
	// must be above Low, also where that is the default, and at most 1.
	High float64
}

// Reduction returns by what share of the way from the full timeout to the shortest
// one timeouts are reduced where used, from 0 to 1, is in use: 0 up to Low, 1 from
// High on, linear between. It takes what Of returns, whatever that is: less than 0,
// and what is not a number, give 0, and more than 1 gives 1.
func (p Pressure) Reduction(used float64) float64 {
	low, high := p.bounds()
	switch {
	case used >= high:
		return 1
	case used > low:
		return (used - low) / (high - low)
	}
	return 0
}

// Validate returns [ErrArgument], wrapped with both bounds, where they are not
// 0 < Low < High <= 1.
func (p Pressure) Validate() error {
	_, err := p.withDefaults()
	return err
}

// withDefaults returns p with its defaults filled in, or [ErrArgument], wrapped with
// both bounds, where they are not 0 < Low < High <= 1.
func (p Pressure) withDefaults() (Pressure, error) {
	p.Low, p.High = p.bounds()
	if !(0 < p.Low && p.Low < p.High && p.High <= 1) { // also where one is not a number
		return Pressure{}, fmt.Errorf("%w: Pressure.Low %v and Pressure.High %v, must be 0 < Low < High <= 1", ErrArgument, p.Low, p.High)
	}
	return p, nil
}

func (p Pressure) bounds() (low, high float64) {
	return cmp.Or(p.Low, defaultLow), cmp.Or(p.High, defaultHigh)
}
