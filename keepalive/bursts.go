package keepalive

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// burstSize is how many connections that a Keeper closes within burstTime are worth
	// a line. One that finds no room, or makes room for another, is worth it always.
	burstSize = 100
	burstTime = time.Second

	// maxBurstTime is how long a line covers at most when there is one after the other:
	// each covers twice as long as the one before.
	maxBurstTime = time.Minute
)

// bursts has what happens to many connections at a time logged as one line. There is a
// timer only while there is something to tell.
type bursts struct {
	mu      sync.Mutex
	counts  Counts
	refused Refusals
	second  time.Time     // when the burstTime began in which
	many    int           // so many were closed
	burst   bool          // they have been burstSize
	span    time.Duration // which the timer waits
	timer   *time.Timer   // or nil
	told    time.Time     // when there was a line last
	ended   bool
}

// closed notes a connection that the Keeper has closed.
func (b *bursts) closed(k *Keeper, reason Reason) {
	if reason != ReasonDrain { // somebody wants that, and it is logged
		b.note(k, func() {
			b.counts[reason]++
			b.seeBurst(time.Now())
		})
	}
}

// seeBurst notes that a connection was closed. However long a line covers, it takes as
// many within burstTime to be worth it: or a burst would be followed by lines about what
// is closed on any day. b.mu must be held.
func (b *bursts) seeBurst(now time.Time) {
	if now.Sub(b.second) >= burstTime {
		b.second, b.many = now, 0
	}
	b.many++
	b.burst = b.burst || b.many >= burstSize
}

// note notes something, and has a line written soon.
func (b *bursts) note(k *Keeper, count func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	count()
	if b.timer != nil {
		return
	}
	b.span = min(2*b.span, maxBurstTime)
	if b.span == 0 || time.Since(b.told) > b.span {
		b.span = burstTime
	}
	b.timer = time.AfterFunc(b.span, func() { b.tell(k) })
}

// tell writes the line, if it is worth it.
func (b *bursts) tell(k *Keeper) {
	b.mu.Lock()
	counts, refused, span := b.counts, b.refused, b.span
	b.counts, b.refused, b.timer = Counts{}, Refusals{}, nil
	worth := b.burst || counts[ReasonEvicted] > 0 || refused.Full+refused.PerKey > 0
	b.burst = false
	if worth {
		b.told = time.Now()
	}
	b.mu.Unlock()
	if !worth {
		return
	}
	attrs := []slog.Attr{slog.Duration("within", span), slog.Int("conns", k.Len())}
	for reason, n := range counts {
		if n > 0 {
			attrs = append(attrs, slog.Uint64(Reason(reason).String(), n))
		}
	}
	for _, of := range []struct {
		name string
		n    uint64
	}{{"refused", refused.Full}, {"refused_per_key", refused.PerKey}} {
		if of.n > 0 {
			attrs = append(attrs, slog.Uint64(of.name, of.n))
		}
	}
	k.log.LogAttrs(context.Background(), slog.LevelWarn, "keepalive: closed or refused connections", attrs...)
}

// end writes what there is to tell, as the last line: also where the timer has just
// fired, which then finds nothing.
func (b *bursts) end(k *Keeper) {
	b.mu.Lock()
	if b.timer != nil {
		b.timer.Stop()
	}
	b.ended = true
	b.mu.Unlock()
	b.tell(k)
}
