package keepalive

import (
	"sync"
	"time"
)

// turns gives out turns, so many per second: what is known as the generic cell rate
// algorithm, or a leaky bucket. There is no queue: who has to wait goes back into the
// wheel until its turn, and when that comes, it is looked at again.
type turns struct {
	mu   sync.Mutex
	next time.Time
}

// turn returns how long to wait, or 0 where one may go on at once.
func (t *turns) turn(perSecond int, slack time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.next.Before(now) {
		t.next = now
	}
	wait := t.next.Sub(now)
	t.next = t.next.Add(time.Second / time.Duration(perSecond))
	if wait < slack {
		return 0
	}
	return wait
}

// turn returns how long a connection has to wait until it may be closed, or 0. One
// that has waited has its turn.
func (k *Keeper) turn(p *policy, waited bool) time.Duration {
	if p.MaxClosePerSecond == 0 || waited {
		return 0
	}
	return k.turns.turn(p.MaxClosePerSecond, k.pool.Tick())
}
