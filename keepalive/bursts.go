package keepalive

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// burstSize is how many connections a Keeper closes within burstTime to be worth a line. A
	// refused connection, and an evicted one, is always worth a line.
	burstSize = 100
	burstTime = time.Second

	// maxBurstTime is how long a line covers at most. While one line follows the other, each
	// covers twice as long as the one before.
	maxBurstTime = time.Minute
)

// bursts logs the end of many connections as one line. There is a timer only while there is
// something to tell.
type bursts struct {
	mu           sync.Mutex
	counts       [endOfAll]uint64
	full, perKey uint64        // refused
	second       time.Time     // begin of the present burstTime
	many         int           // closed in it
	burst        bool          // burstSize was reached
	period       time.Duration // of the timer
	timer        *time.Timer   // or nil
	told         time.Time     // when the last line was written
	ended        bool
}

// closed notes a connection closed by the Keeper.
func (b *bursts) closed(k *Keeper, reason Reason) {
	if reason == ReasonDrain { // meant, and logged by Drain
		return
	}
	b.note(k, func(b *bursts) {
		b.counts[reason]++
		b.seeBurst(time.Now())
	})
}

// seeBurst notes a closed connection. However long a line covers, it takes burstSize within
// burstTime to be worth a line. Otherwise the usual closes of any day would follow a burst as
// lines. b.mu must be held.
func (b *bursts) seeBurst(now time.Time) {
	if now.Sub(b.second) >= burstTime {
		b.second, b.many = now, 0
	}
	b.many++
	b.burst = b.burst || b.many >= burstSize
}

// note counts something, and has a line written soon.
func (b *bursts) note(k *Keeper, count func(b *bursts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	count(b)
	if b.timer != nil {
		return
	}
	b.period = min(2*b.period, maxBurstTime)
	if time.Since(b.told) > b.period { // or no line so far
		b.period = burstTime
	}
	b.timer = time.AfterFunc(b.period, func() { b.tell(k) })
}

// tell writes the line, if it is worth it.
func (b *bursts) tell(k *Keeper) {
	b.mu.Lock()
	counts, full, perKey, period := b.counts, b.full, b.perKey, b.period
	worth := b.burst || counts[ReasonEvicted] > 0 || full+perKey > 0
	b.counts, b.full, b.perKey, b.timer, b.burst = [endOfAll]uint64{}, 0, 0, nil, false
	if worth {
		b.told = time.Now()
	}
	b.mu.Unlock()
	if !worth {
		return
	}
	attrs := []slog.Attr{slog.Duration("within", period), slog.Int("conns", k.Len())}
	count := func(name string, n uint64) {
		if n > 0 {
			attrs = append(attrs, slog.Uint64(name, n))
		}
	}
	for reason, n := range counts {
		count(Reason(reason).String(), n)
	}
	count("refused", full)
	count("refused_per_key", perKey)
	k.log.LogAttrs(context.Background(), slog.LevelWarn, "keepalive: closed or refused connections", attrs...)
}

// end writes the last line. A timer fired just now finds nothing left to tell.
func (b *bursts) end(k *Keeper) {
	b.mu.Lock()
	if b.timer != nil {
		b.timer.Stop()
	}
	b.ended = true
	b.mu.Unlock()
	b.tell(k)
}
