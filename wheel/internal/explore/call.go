package explore

import (
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel/internal/explore/sched"
)

const (
	tick = 10 * time.Millisecond

	// base is the actors' first tick.
	base = 4

	// delay is the delay of each timer.
	delay = 2 * tick
)

// levels make a wheel of nine slots. A long delay goes round in it.
var levels = []int{3, 1}

// op is a call of the wheel.
type op uint8

const (
	touch op = iota
	moveShort
	moveLong
	delayShort
	delayLong
	remove
	expire
	expireSeen
	rearmPast
	rearmLater
	rearmSeen
	touchAtPast
	touchAtNow
	handOver
	handOverIdle
	look
	touched
	value
	moveKey
	takeUp
	start
	now     // looks at the clock
	seeAll  // goes through All
	pause   // a tick passes
	advance // wakes the hand when it wants to wake, late by some milliseconds
	rest    // wakes the hand at the very beginning of the next tick; before the actors begin
	publish // the hand, or another caller, has published a tick
	ops
)

var opNames = [ops]string{
	"Touch()", "Move(1 tick)", "Move(10 ticks)", "SetDelay(1 tick)", "SetDelay(5 ticks)", "Remove()", "Expire()", "ExpireSeen()",
	"Rearm(the past)", "Rearm(later)", "RearmSeen(later)", "TouchAt(the past)", "TouchAt(now)", "HandOver()", "HandOverIdle(the past)", "Look()", "Touched()", "Value()",
	"MoveTimer(2 ticks)", "takeUp()", "Start(2 ticks)", "Now()", "All()", "a tick passes",
	"the hand: advance()", "rest", "published",
}

// length is the argument of an op, a duration or an instant.
var length = [ops]time.Duration{
	moveShort: tick, moveLong: 10 * tick, delayShort: tick, delayLong: 5 * tick,
	rearmPast: (base - 1) * tick, rearmLater: (base + 4) * tick, rearmSeen: (base + 4) * tick,
	touchAtPast: (base - 1) * tick, touchAtNow: (base + 100) * tick,
	handOverIdle: (base - 1) * tick,
	moveKey:      delay, start: delay,
}

// step is an op on a timer.
type step struct {
	op    op
	timer int
}

func (s step) String() string {
	if s.op >= now || s.op == takeUp {
		return opNames[s.op]
	}
	return fmt.Sprintf("%c.%s", 'A'+s.timer, opNames[s.op])
}

// call is a step made.
type call struct {
	step
	answer answer

	// begin and end are numbers in the order of all begins and ends.
	begin, end int

	// What was the case when the call began and when it had ended. The tick of publish is the
	// one published.
	tick        uint64
	began, over time.Duration

	pass time.Duration // of the hand: the instant by which it visits
}

// answer is what a call has returned.
type answer struct {
	ok    bool
	isDue bool
	timer int           // taken up, or the value
	from  time.Duration // the last touch was not before
	at    time.Duration // nor after
	dueAt time.Duration
	seen  [2]int8 // how often All has each timer
}

func (a answer) String() string {
	return fmt.Sprintf("%v (timer %c, is due: %v, at %v, touched: %v to %v, seen: %v)", a.ok, 'A'+a.timer, a.isDue, a.dueAt, a.from, a.at, a.seen)
}

// world is a wheel, its clock, and the calls so far.
type world struct {
	wheel Wheel
	clock sched.Var
	now   time.Duration
	tick  uint64 // published, as far as calls tell
	order int    // begins and ends of calls
	calls []call

	hand  int // its actor, or noHand
	pass  int // the call
	looks int // of the hand at the clock, in this pass
}

const (
	noHand = -2

	// woken is how late the hand wakes. Between two of its looks at the clock passes a blink.
	woken = time.Millisecond
	blink = time.Millisecond
)

// newWorld makes a world. It takes the memory of the calls of another.
func newWorld(newWheel NewWheel, sleep time.Duration, calls []call) *world {
	w := &world{hand: noHand, calls: calls[:0]}
	w.clock.Name("clock")
	w.wheel = newWheel(tick, sleep, levels, w.since)
	return w
}

// since is the wheel's clock. Time passes when the hand has looked at it for the tick, and not
// otherwise: so the hand is as slow as can be, and all others are as quick. The other looks of
// the hand are for statistics.
func (w *world) since() time.Duration {
	if w.hand == sched.Current() {
		w.looks++
	}
	if w.hand != sched.Current() || w.looks < 2 || w.looks > 3 {
		w.clock.ReadAtOnce()
		return w.now
	}
	w.clock.Write()
	now := w.now
	w.now += blink
	if w.looks == 2 {
		w.calls[w.pass].pass = now
	}
	if sched.Traced() {
		w.clock.Trace("is %v, and then %v", now, w.now)
	}
	return now
}

// known is a hash of what a call notes of the world when it begins and ends.
func (w *world) known() uint64 {
	return (w.wheel.Tick()*1_000_003+uint64(w.now))*1_000_003 + uint64(w.wheel.Wake())
}

// next returns the next number of a begin or an end. If a tick was published since the last
// one, that was a call in between.
func (w *world) next() int {
	w.order += 2
	if tick := w.wheel.Tick(); tick != w.tick {
		w.tick = tick
		w.calls = append(w.calls, call{step: step{op: publish}, begin: w.order - 1, end: w.order - 1, tick: tick})
	}
	return w.order
}

// do makes a call.
func (w *world) do(s step) {
	sched.Begin(w.known)
	if sched.Traced() {
		sched.Trace(s.String())
	}
	begin := w.next()
	n := len(w.calls)
	w.calls = append(w.calls, call{step: s, begin: begin, tick: w.wheel.Tick(), began: w.now})
	a := w.call(s, n)
	end := w.next()
	c := &w.calls[n]
	c.answer, c.end, c.over = a, end, w.now
	sched.End(w.known)
	if sched.Traced() {
		sched.Trace("  = " + a.String())
	}
}

// call makes the call with that number.
func (w *world) call(s step, n int) (a answer) {
	t, d := w.wheel.Timer(s.timer), length[s.op]
	switch s.op {
	case touch:
		a.ok = t.Touch()
	case moveShort, moveLong:
		a.ok = t.Move(d)
	case delayShort, delayLong:
		a.ok = t.SetDelay(d)
	case remove:
		a.timer, a.ok = t.Remove()
	case expire:
		a.timer, a.ok = t.Expire()
	case expireSeen:
		a.timer, a.ok = t.ExpireSeen()
	case rearmPast, rearmLater:
		a.ok = t.Rearm(d)
	case rearmSeen:
		a.ok = t.RearmSeen(d)
	case touchAtPast, touchAtNow:
		a.ok = t.TouchAt(d)
	case handOver:
		a.ok = t.HandOver()
	case handOverIdle:
		a.ok = t.HandOverIdle(d)
	case look:
		a.from, a.at, a.dueAt, a.ok, a.isDue = t.Look()
	case touched:
		a.at, a.ok = t.Touched()
	case value:
		a.timer, a.ok = t.Value()
	case moveKey:
		a.ok = w.wheel.MoveTimer(s.timer, d)
	case takeUp:
		a.timer, a.ok = w.wheel.TakeUp()
	case start:
		a.ok = w.wheel.Start(s.timer, d)
	case now:
		a.at = w.wheel.Now()
	case seeAll:
		a.seen = w.wheel.Seen()
	case pause:
		w.clock.Write()
		w.now += tick
	case advance:
		w.advance(n)
	case rest:
		w.now = w.now.Truncate(tick) + tick
		w.calls[n].pass = w.now
		w.wheel.Advance()
	}
	return a
}

// advance is the hand's waking.
func (w *world) advance(n int) {
	w.clock.Write()
	w.now = max(w.now, w.wheel.Wake()) + woken
	w.hand, w.pass, w.looks = sched.Current(), n, 0
	w.wheel.Advance()
	w.hand = noHand
}

// settle lets the hand wake whenever it wants to, for so long, while nobody else does anything.
// It calls passed after each pass.
func (w *world) settle(d time.Duration, passed func() error) error {
	for end := w.now + d; w.now < end; {
		w.now = max(w.now, w.wheel.Wake())
		w.wheel.Advance()
		if err := passed(); err != nil {
			return err
		}
		w.now++
	}
	return nil
}
