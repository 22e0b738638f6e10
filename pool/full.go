package pool

import (
	"context"
	"fmt"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// Full is the answer of a pool at its capacity to one more member.
type Full int

const (
	// Reject refuses the newcomer with ErrFull.
	Reject Full = iota

	// Wait is Reject for Join. Callers block in [Pool.Wait] until there is room.
	Wait

	// EvictIdlest lets the newcomer in and a member out: one of those with the oldest touches,
	// if its touch is old enough (Config.MinIdle), and Config.Evictable allows it. The pool looks
	// for the 64 idlest of 16,384 members at a time, from all over the pool, and evicts them one
	// after the other, unless they are touched in the meantime. A newcomer waits for one such look
	// at most. In a larger pool it may be refused although somebody is idle enough. Then the next
	// newcomer looks at other members, and so on. After a look at all members for nothing, all
	// newcomers are refused for a second, or for ten ticks if that is longer.
	//
	// The member is handed to Config.Evict, and until Evict decides, a touch still saves it. So
	// for a moment the pool may have up to 64 members more than its capacity. If touches have
	// saved some, it stays over its capacity until the next newcomer comes. Then all that are too
	// many are evicted.
	EvictIdlest
)

var fullNames = [...]string{"reject", "wait", "evict"}

func (f Full) String() string {
	if f < 0 || int(f) >= len(fullNames) {
		return fmt.Sprintf("Full(%d)", int(f))
	}
	return fullNames[f]
}

// Wait waits until there is room for one more member. Somebody else may take the room
// first: then Join returns ErrFull, and Wait has to be called again. It returns
// [wheel.ErrClosed] after Close, and the error of ctx if ctx is done first.
func (p *Pool[V]) Wait(ctx context.Context) error {
	for p.closed.Err() == nil {
		if capacity := p.capacity.Load(); capacity == 0 || p.wheel.Len() < int(capacity) {
			p.wake() // there may be room for the next caller, too
			return nil
		}
		select {
		case <-p.departed:
		case <-p.closed.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return wheel.ErrClosed
}

// wake has one of the waiting callers look again.
func (p *Pool[V]) wake() {
	select {
	case p.departed <- struct{}{}:
	default:
	}
}
