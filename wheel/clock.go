package wheel

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// cacheLine is the distance at which two words no longer slow each other down: a line, and
// the next one, since the processor fetches lines in pairs.
const cacheLine = 128

// clock is the part of the wheel read by touches. It has a cache line of its own, and stays
// in every processor's cache until the next tick is published.
type clock struct {
	_ [cacheLine]byte

	// now is the published tick. Time itself may be a tick further, or more if the hand
	// sleeps or the machine is busy, but never behind.
	now atomic.Uint64

	over    atomic.Int64 // end of the tick now, since the start
	tick    time.Duration
	inverse uint64 // 2^64/tick, rounded down
	sleeps  bool   // the hand may sleep for more than a tick

	_ [cacheLine - 40]byte
}

func (c *clock) setTick(tick time.Duration) {
	c.tick = tick
	c.inverse = math.MaxUint64 / uint64(tick)
}

// ticks returns how many ticks are at least as long as d, or 0 if d is not positive. The
// multiplication finds the quotient or one less, four times as fast as a division.
func (c *clock) ticks(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	n, _ := bits.Mul64(uint64(d), c.inverse)
	for n*uint64(c.tick) < uint64(d) {
		n++
	}
	return n
}

// span returns the length of n ticks, at most the longest Duration.
func (c *clock) span(n uint64) time.Duration {
	if more, d := bits.Mul64(n, uint64(c.tick)); more == 0 && d <= math.MaxInt64 {
		return time.Duration(d)
	}
	return math.MaxInt64
}
