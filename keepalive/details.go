package keepalive

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/pool"
)

// details is what the Keeper remembers of a connection besides its deadline, where
// it has to: some 200 bytes.
type details struct {
	timeout atomic.Int64 // a Duration of the connection's own, or 0
	beats   atomic.Uint32
	holds   atomic.Int32

	// lookBy is the tick by which the connection is looked at, however often it is
	// touched, and generation that of the policy by which this was prepared.
	lookBy     atomic.Uint64
	generation atomic.Uint32

	// mu guards what follows. The wheel may be called with it, but nobody else.
	mu sync.Mutex

	// stage is how far its present silence has led. It holds as long as stamp is
	// that of its deadline: if not, it has been touched since.
	stage stage
	count uint8  // probes sent, or rounds of unread bytes
	why   Reason // for which it was to be closed
	stamp uint64

	// Ticks on which something is due whether it is touched or not, or never.
	born   uint64 // by then it was
	ages   uint64 // MaxAge, and then the end of the grace
	rates  uint64 // the end of the window for MinBeat and MinRate
	idles  uint64 // ReadIdle and WriteIdle
	doom   Reason // 0, or why it is closed, whatever its peer says
	doomed bool   // now, and not when it is its turn
	aged   bool   // OnMaxAge was told
	hadAge bool   // the policy before had a MaxAge
	evicts uint64 // the stamp with which it is to make room, or 0
	turn   bool   // it has waited for its turn to be closed, which has come
	spent  bool   // nothing more comes of its present read or write silence

	released time.Time // when it was last held

	seen uint64 // bytes that had arrived when its silence was last judged

	bytes, windowBegan uint64 // received, and the tick, when the window began
	tooOften, tooSlow  uint8  // strikes

	edge      uint8 // the advisor's next for the present silence, on which the
	edgeStamp uint64

	probed    time.Time // when the last probe was sent that has not been answered
	answerBy  uint64    // the tick by which it has to be
	roundTrip time.Duration

	context   context.Context
	cancel    context.CancelCauseFunc
	share     *pool.Share
	forgotten bool // it is not guarded any more
}

// stage says what a connection waits for in its present silence.
type stage uint8

const (
	listening stage = iota // for its deadline
	unread                 // for this program to read what is there
	probing                // for the answer to a probe
	extended               // as OnIdle has said
	queued                 // for its turn to be closed
	held                   // for this program to be done with it
	ignored                // for nothing: its silence does not matter
)

const never = math.MaxUint64

// detailsOf returns the details of a connection, and makes them where it has none.
func (k *Keeper) detailsOf(g *Guard) *details {
	if d := g.details.Load(); d != nil {
		return d
	}
	d := &details{born: k.pool.TickIn(0), ages: never, rates: never, idles: never}
	d.lookBy.Store(never)
	d.prepare(k, k.policy.Load(), g)
	if !g.details.CompareAndSwap(nil, d) {
		return g.details.Load()
	}
	return d
}

// prepare sets what the policy wants to look at in any case.
func (d *details) prepare(k *Keeper, p *policy, g *Guard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := d.generation.Load() == 0
	d.ages, d.idles = never, never
	if p.MaxAge > 0 {
		if !d.hadAge && !fresh {
			d.born = k.pool.TickIn(0)
		}
		d.ages = d.born + k.ticks(p.maxAge(g))
		if d.aged = d.aged && d.ages <= k.pool.Now(); d.aged {
			d.ages += k.ticks(p.MaxAgeGrace)
		}
	}
	d.hadAge = p.MaxAge > 0
	if p.MinBeat == 0 && p.MinRate == 0 {
		d.rates = never
	} else if d.rates == never {
		d.openWindow(k, k.pool.Now())
	}
	if (p.ReadIdle > 0 || p.WriteIdle > 0) && fresh {
		d.idles = k.pool.TickIn(least(p.ReadIdle, p.WriteIdle))
	} else if p.ReadIdle > 0 || p.WriteIdle > 0 {
		d.idles = 0 // at once, since it has an age already
	}
	d.spent = false
	if d.stage == ignored {
		d.stage = listening // what was ignored by the policy before
	}
	if d.doom != 0 {
		d.ages, d.rates, d.idles = never, never, never // it is to be closed, whatever the policy
	}
	d.generation.Store(p.generation)
	d.plan()
}

// plan sets by when to look. d.mu must be held.
func (d *details) plan() {
	if d.doomed {
		d.lookBy.Store(0)
		return
	}
	d.lookBy.Store(min(d.ages, d.rates, d.idles))
}

// at returns how far the present silence of a connection has led, whose deadline has
// that stamp. A nil d has led nowhere.
func (d *details) at(stamp uint64) (s stage, count uint8, why Reason) {
	if d == nil {
		return listening, 0, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stage == listening || d.stamp != stamp {
		return listening, 0, 0
	}
	return d.stage, d.count, d.why
}

// isEvicted reports whether a connection whose deadline has that stamp is to make room.
// A nil d is not.
func (d *details) isEvicted(stamp uint64) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.evicts != 0 && d.evicts == stamp
}

// seeBytes notes how many bytes had arrived when a silence was judged, so that it can be
// told at its next stage whether there were more. A nil d needs no note: there will be
// none.
func (d *details) seeBytes(n uint64) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = n
}

func (d *details) bytesSeen() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen
}

// tell ends the context of a connection that is about to be closed.
func (d *details) tell(why error) {
	d.mu.Lock()
	cancel := d.cancel
	d.mu.Unlock()
	if cancel != nil {
		cancel(why)
	}
}

// enter notes what a connection waits for until its deadline with that stamp.
func (d *details) enter(s stage, count uint8, why Reason, stamp uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stage, d.count, d.why, d.stamp, d.turn = s, count, why, stamp, false
}

// postpone gives a connection that is due some more time, in which it waits for
// something.
func (k *Keeper) postpone(g *Guard, s stage, count uint8, why Reason, more time.Duration) bool {
	d := k.detailsOf(g)
	before := g.member.Stamp()
	stamp, ok := g.member.Postpone(more)
	if ok {
		d.enter(s, count, why, stamp)
		d.sameSilence(before, stamp)
	}
	return ok
}

// sameSilence notes, for the advisor, that a silence goes on with another deadline.
func (d *details) sameSilence(before, stamp uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.edgeStamp == before {
		d.edgeStamp = stamp
	}
}

// ticks returns how many ticks are at least as long as d.
func (k *Keeper) ticks(d time.Duration) uint64 {
	tick := k.pool.Tick()
	n := uint64(d / tick)
	if d%tick > 0 {
		n++
	}
	return n
}

// least returns the shorter of two durations that are not 0.
func least(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
