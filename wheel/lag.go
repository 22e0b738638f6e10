package wheel

import "time"

// A touch takes the published tick for the time of day, and its deadline gets one tick on
// top. The extra tick is enough as long as each tick is left when the next one begins. But
// a sleeper wakes a fraction of a millisecond late, on a busy machine 30 ms, beside the
// garbage collector 150 ms, and the hand may sleep through some ticks. lagLog keeps how
// late each tick was left, by the hand or by Now. So a due timer can be held back by just
// the lag of its touch.
//
// It is exact for the last 4096 ticks. Of older ticks it keeps the largest lag of each 16,
// of still older ones of each 256, and so on: 128 KiB for 16 million ticks. For the time
// before, it is the largest lag ever.
type lagLog struct {
	last  uint64 // the published tick
	most  time.Duration
	rings [lagRings][lagRing]time.Duration
}

const (
	lagRings = 4
	lagRing  = 4096
	lagShift = 4 // a place of a ring stands for 16 places of the one before
)

// left records the step from tick last to tick, and the lag of last: so long it had been
// over. The ticks between them were never published.
func (l *lagLog) left(tick uint64, lag time.Duration) {
	for r := range l.rings {
		ring, block, next := &l.rings[r], l.last>>(r*lagShift), tick>>(r*lagShift)
		ring[block%lagRing] = max(ring[block%lagRing], lag)
		for back := range min(next-block, lagRing) {
			ring[(next-back)%lagRing] = 0
		}
	}
	l.last = tick
	l.most = max(l.most, lag)
}

// of returns the lag of a tick, or a little more for a tick long past. It is 0 for the
// published tick.
func (l *lagLog) of(tick uint64) time.Duration {
	for r := range l.rings {
		shift := r * lagShift
		if block := tick >> shift; l.last>>shift-block < lagRing {
			return l.rings[r][block%lagRing]
		}
	}
	return l.most
}
