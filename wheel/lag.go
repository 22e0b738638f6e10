package wheel

import "time"

// A touch takes the hand's tick for the time of day and gets one tick on top,
// which is enough as long as the hand leaves each tick when the next one
// begins. It never quite does: a sleeper wakes a fraction of a millisecond late,
// on a busy machine 30 ms, beside the garbage collector 150 ms. lagLog keeps how
// late the hand left each tick, so that a timer can be held back by just that
// before it expires.
//
// It is exact for the last 1024 ticks. Of older ones it keeps the largest lag of
// each 16, of older ones still of each 256, and so on: 40 KiB for 67 million
// ticks. Before that, it is the largest lag ever.
type lagLog struct {
	last  uint64 // the tick that the hand has reached
	most  time.Duration
	rings [lagRings][lagRing]time.Duration
}

const (
	lagRings = 5
	lagRing  = 1024
	lagShift = 4 // a place of a ring stands for 16 places of the one before
)

// left records that the hand went from tick last on to tick, and that last had
// been over for lag by then. The ticks between them were never anybody's now.
func (l *lagLog) left(tick uint64, lag time.Duration) {
	from := l.last
	for r := range l.rings {
		shift := r * lagShift
		l.rings[r][from>>shift%lagRing] = max(l.rings[r][from>>shift%lagRing], lag)
		begun := from>>shift + 1
		if most := tick >> shift; most >= lagRing {
			begun = max(begun, most-lagRing+1)
		}
		for block := begun; block <= tick>>shift; block++ {
			l.rings[r][block%lagRing] = 0
		}
	}
	l.last = tick
	l.most = max(l.most, lag)
}

// of returns the lag with which the hand left a tick, or a little more for a tick long past.
// It is 0 for the tick of the hand.
func (l *lagLog) of(tick uint64) time.Duration {
	for r := range l.rings {
		shift := r * lagShift
		if block := tick >> shift; l.last>>shift-block < lagRing {
			return l.rings[r][block%lagRing]
		}
	}
	return l.most
}
