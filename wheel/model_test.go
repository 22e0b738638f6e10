package wheel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// The model is the promise of the wheel in its simplest form: a map of timers, searched on
// each advance. A rig does everything to a wheel and to the model, and compares them after
// every operation.
//
// The lag of a tick is not modelled: TestLagLog tests it.
type model struct {
	tick   time.Duration
	now    uint64 // the tick of touches
	hand   uint64 // the tick of the hand
	lag    func(touched uint64) time.Duration
	timers map[int]*modelTimer
}

type modelTimer struct {
	id       int
	delay    time.Duration // the delay of each Touch
	touched  uint64        // the published tick at the last touch
	at       time.Duration // the time of the last touch
	rearmed  bool          // no touch since it got a deadline of its own
	quiet    bool          // or since the last look
	due      uint64
	deadline time.Duration // it must not expire before
	limit    time.Duration // or 0
	visit    uint64        // earliest tick of a visit
	held     bool          // due at its last visit, but not for certain: each pass visits it
	state    word
}

func (m *model) ticks(d time.Duration) uint64 { return uint64((max(d, 0) + m.tick - 1) / m.tick) }

// touch makes a touch at an instant.
func (m *model) touch(t *modelTimer, tick uint64, at time.Duration) {
	if t.state == due {
		t.visit, t.held = m.hand+1, false
	}
	t.touched, t.at, t.rearmed, t.quiet, t.state = tick, at, false, false, pending
	m.derive(t)
}

// derive sets the deadline unless the timer is rearmed.
func (m *model) derive(t *modelTimer) {
	if t.rearmed {
		return
	}
	t.due, t.deadline = t.touched+m.ticks(t.delay)+1, t.at+t.delay
	if t.due <= m.hand {
		t.visit = m.hand + 1
	}
}

// rearm gives a timer a deadline of its own.
func (m *model) rearm(t *modelTimer, at time.Duration) {
	t.held = t.held && t.state == pending
	t.rearmed, t.quiet, t.due, t.deadline, t.state = true, true, m.ticks(at), at, pending
	t.visit = m.hand + 1
}

// dueBy returns the first instant at which a timer is due for certain.
func (m *model) dueBy(t *modelTimer) time.Duration {
	at := time.Duration(t.due) * m.tick
	if !t.rearmed {
		at += m.lag(t.touched)
	}
	return at
}

// hasPassed reports whether a timer is due for certain.
func (m *model) hasPassed(t *modelTimer, now time.Duration) bool { return m.dueBy(t) <= now }

// advance returns the timers made due by a waking of the hand at now.
func (m *model) advance(now time.Duration) []int {
	m.now = uint64(now / m.tick)
	m.hand = m.now
	var ids []int
	for id, t := range m.timers {
		if t.state != pending || m.now < t.visit && !t.held {
			continue
		}
		limited := t.limit > 0 && m.ticks(t.limit) <= m.now
		if m.hasPassed(t, now) || limited {
			t.state = due
			ids = append(ids, id)
		}
		t.held = t.state == pending && t.due <= m.now
	}
	slices.Sort(ids)
	return ids
}

// failer fails a test, and has no method Helper: an assertion calls that first, and it walks the stack. With
// the race detector those walks took half the time of all that is asserted in a loop. The report of a failure
// has the lines of all callers anyway.
type failer struct{ require.TestingT }

type rig struct {
	t      failer
	model  model
	wheel  *WheelOf[int]
	timers map[int]*TimerOf[int]
	ended  map[int]*TimerOf[int]
	now    time.Duration
	id     int
	fired  []int // handed over since the last check
}

func newRig(t testing.TB, tick time.Duration, levels []int) *rig {
	return newSleeper(t, tick, 1, levels)
}

// newSleeper is newRig for a wheel whose hand may sleep for some ticks.
func newSleeper(t testing.TB, tick time.Duration, sleep int, levels []int) *rig {
	if levels != nil {
		sleep = min(sleep, levels[0])
	}
	maxSleep := time.Duration(sleep) * tick
	r := &rig{
		t:      failer{t},
		model:  model{tick: tick, timers: map[int]*modelTimer{}},
		timers: map[int]*TimerOf[int]{},
		ended:  map[int]*TimerOf[int]{},
	}
	w, err := newOf(Config{Tick: tick, MaxSleep: maxSleep, Levels: levels, Stall: -1}, Funcs[int]{
		Due: func(timer *TimerOf[int], id int) {
			require.Same(t, r.timers[id], timer)
			r.fired = append(r.fired, id)
		},
		Limit: func(id int) time.Duration {
			if m := r.model.timers[id]; m != nil && m.limit > 0 {
				return m.limit
			}
			return math.MaxInt64
		},
	})
	require.NoError(t, err)
	w.workers.most = 0 // only takeUpAll takes up due timers
	w.onPanic = func(v any, stack []byte) { t.Errorf("%v\n%s", v, stack) }
	w.since = func() time.Duration { return r.now }
	r.wheel = w
	r.model.lag = func(touched uint64) time.Duration { return w.lag.of(touched) }
	return r
}

func (r *rig) add(d time.Duration) int {
	r.id++
	timer, err := r.wheel.Add(r.id, d)
	require.NoError(r.t, err)
	r.timers[r.id] = timer
	m := &modelTimer{id: r.id, delay: d}
	r.model.touch(m, r.model.now, r.now)
	r.model.timers[r.id] = m
	return r.id
}

func (r *rig) touch(id int) {
	require.True(r.t, r.timers[id].Touch())
	r.model.touch(r.model.timers[id], r.model.now, r.now)
}

func (r *rig) move(id int, d time.Duration) {
	require.True(r.t, r.timers[id].Move(d))
	m := r.model.timers[id]
	r.model.touch(m, r.model.now, r.now)
	r.model.rearm(m, r.now+d)
}

// rearm gives a due timer until an instant.
func (r *rig) rearm(id int, at time.Duration) {
	m := r.model.timers[id]
	require.Equal(r.t, m.state == due, r.timers[id].Rearm(at))
	if m.state == due {
		r.model.rearm(m, at)
	}
}

// touchAt is a touch of a due timer, so long ago.
func (r *rig) touchAt(id int, ago time.Duration) {
	m := r.model.timers[id]
	at := r.now - ago
	require.Equal(r.t, m.state == due, r.timers[id].TouchAt(at))
	if m.state == due {
		tick := min(uint64(max(0, at)/r.model.tick), r.model.now)
		if r.wheel.lastOf(m.touched) > at {
			tick = m.touched
		}
		r.model.touch(m, max(m.touched, tick), max(m.at, at))
	}
}

// look compares the answers of a look.
func (r *rig) look(id int) {
	m := r.model.timers[id]
	saw := r.timers[id].Look()
	require.Equal(r.t, time.Duration(m.touched)*r.model.tick, saw.From)
	require.LessOrEqual(r.t, saw.From, m.at)
	require.GreaterOrEqual(r.t, saw.Touched, m.at)
	require.Equal(r.t, time.Duration(m.due)*r.model.tick, saw.DueAt)
	require.Equal(r.t, m.quiet, saw.Quiet)
	require.Equal(r.t, m.state == due, saw.IsDue)
	again, _ := r.timers[id].Touched()
	require.Equal(r.t, again, saw.Touched)
	m.quiet = true
}

// handOver makes a pending timer due at once.
func (r *rig) handOver(id int) {
	m := r.model.timers[id]
	at, _ := r.timers[id].Touched()
	require.False(r.t, r.timers[id].HandOverIdle(at-1))
	require.Equal(r.t, m.state == pending, r.timers[id].HandOver())
	m.state = due
	takeUpAll(r.wheel)
	r.fired = nil
}

// lookAtClock is the call of Now after a wait, before a touch.
func (r *rig) lookAtClock(d time.Duration) {
	r.now += d
	now := r.wheel.Now()
	if r.wheel.sleep > 1 {
		r.model.now = uint64(r.now / r.model.tick)
	}
	require.Equal(r.t, time.Duration(r.model.now)*r.model.tick, now)
}

func (r *rig) setDelay(id int, d time.Duration) {
	require.True(r.t, r.timers[id].SetDelay(d))
	m := r.model.timers[id]
	m.delay = d
	r.model.derive(m)
}

func (r *rig) setLimit(id, ticks int) {
	m := r.model.timers[id]
	m.limit = time.Duration(r.model.now+1+uint64(ticks))*r.model.tick - time.Duration(ticks%2)
	r.timers[id].SetDelay(m.delay) // files the timer again
}

func (r *rig) remove(id int) {
	v, ok := r.timers[id].Remove()
	require.True(r.t, ok)
	require.Equal(r.t, id, v)
	r.end(id)
}

func (r *rig) expire(id int) {
	m := r.model.timers[id]
	v, ok := r.timers[id].Expire()
	require.Equal(r.t, m.state == due, ok)
	if ok {
		require.Equal(r.t, id, v)
		r.end(id)
	}
}

func (r *rig) end(id int) {
	r.ended[id] = r.timers[id]
	delete(r.ended, id-20) // twenty are enough
	delete(r.timers, id)
	delete(r.model.timers, id)
}

// advance lets time pass and wakes the hand.
func (r *rig) advance(d time.Duration) {
	r.now += d
	wait := r.wheel.advance()
	want := r.model.advance(r.now)
	for _, id := range want { // a touch before a worker comes leaves a timer at its limit due
		if m := r.model.timers[id]; id%2 == 0 && m.limit > 0 && r.model.ticks(m.limit) <= r.model.now {
			r.touch(id)
			m.state = due
		}
	}
	takeUpAll(r.wheel)
	slices.Sort(r.fired)
	require.Equal(r.t, want, r.fired, "at %v", r.now)
	for _, id := range r.fired {
		m := r.model.timers[id]
		if m.limit == 0 || m.limit > r.now {
			require.GreaterOrEqual(r.t, r.now, m.deadline, "timer %d is early", id)
		}
		m.limit = 0
	}
	r.fired = nil
	require.GreaterOrEqual(r.t, wait, time.Duration(0))
	sleep := time.Duration(r.wheel.sleep) * r.model.tick
	require.LessOrEqual(r.t, wait, sleep, "the hand must wake once a tick, or a sleep")
	if r.wheel.held.first == nil && sleep > wait {
		require.Zero(r.t, (r.now+wait)%r.model.tick, "and when a tick begins")
	}
}

// check compares all answers of the wheel, and checks the links inside it.
func (r *rig) check() {
	t, w := r.t, r.wheel
	require.Equal(t, len(r.timers), w.Len())
	var all []int
	for _, v := range w.All() {
		all = append(all, v)
	}
	slices.Sort(all)
	var ids []int
	for id, m := range r.model.timers {
		ids = append(ids, id)
		timer := r.timers[id]
		at, quiet := timer.Touched()
		require.Equal(t, m.quiet, quiet, "timer %d", id)
		require.GreaterOrEqual(t, at, min(m.at, r.now), "timer %d", id)
		require.LessOrEqual(t, at, r.now)
		if m.state == due {
			require.Zero(t, timer.left())
			require.Contains(t, []*slot[int]{&w.backlog.slot, &w.undecided}, w.levels.slots.chunkOf(timer).slot)
			continue
		}
		require.Equal(t, m.due, timer.dueTick(timer.word.Load()), "timer %d", id)
		certain := r.model.dueBy(m)
		require.LessOrEqual(t, w.wake, max(certain, time.Duration(w.hand+1)*r.model.tick), "the hand would sleep too long for timer %d", id)
		require.Equal(t, time.Duration(m.due-min(m.due, r.model.now))*r.model.tick, timer.left())
		require.Equal(t, time.Duration(r.model.now-m.touched)*r.model.tick, timer.idle())
	}
	slices.Sort(ids)
	require.Equal(t, ids, all, "All must have each running timer once")

	for id, timer := range r.ended {
		require.False(t, timer.Touch(), "timer %d", id)
		require.False(t, timer.Move(time.Hour))
		_, running := timer.Remove()
		require.False(t, running)
		v, running := timer.Value()
		require.False(t, running)
		require.Zero(t, v, "the value must be dropped")
		require.Zero(t, timer.left())
		at, quiet := timer.Touched()
		require.LessOrEqual(t, at, w.Time(0), "its last touch")
		require.False(t, quiet)
		require.Zero(t, timer.idle())
	}
	r.checkLinks()
}

func (r *rig) checkLinks() {
	t, w := r.t, r.wheel
	check := func(to *slot[int], state word, visit uint64, popped uint32) (timers int) {
		for c := to.first; c != nil; c, popped = c.next, 0 {
			require.Same(t, c, w.levels.slots.chunks[c.id])
			require.Same(t, to, c.slot)
			require.Equal(t, visit, c.visit)
			require.Positive(t, c.n)
			require.True(t, c == to.last || c.n == chunkSize, "full but for the last")
			for i, timer := range c.entry[:c.n] {
				if timer == nil && (to == &w.held || uint32(i) < popped) {
					continue // removed
				}
				timers++
				require.Equal(t, c.id<<chunkBits|uint32(i), timer.filed)
				require.Equal(t, state, timer.word.Load()&stateMask)
				if state == due {
					continue
				}
				require.LessOrEqual(t, visit, max(w.hand+1, timer.dueTick(timer.word.Load())), "visited too late")
				require.LessOrEqual(t, visit, w.clock.now.Load()+timer.delay+1, "a touch would have to move the entry")
			}
			kept := slices.ContainsFunc(c.entry[c.n:], func(timer *TimerOf[int]) bool { return timer != nil })
			require.False(t, kept, "must not keep timers alive")
		}
		return timers
	}
	pendings := check(&w.held, pending, 0, 0)
	for i := range w.levels.slot {
		visit, unit := w.levels.next(w.hand, i)
		require.True(t, visit > w.hand && visit%unit == 0, "slot %d", i)
		pendings += check(&w.levels.slot[i], pending, visit, 0)
	}
	require.Equal(t, w.backlog.len, check(&w.backlog.slot, due, never, w.backlog.popped))
	require.Equal(t, w.undecided.len, check(&w.undecided, due, never, 0))
	s := w.Stats()
	counted := len(w.held.first.timers(nil))
	for i, level := range s.Levels {
		require.Equal(t, w.levels.level[i].unit, s.Units[i])
		for _, n := range level {
			counted += n
		}
	}
	require.Equal(t, s.Pending, counted)
	require.Equal(t, pendings, s.Pending)
	require.Equal(t, w.Len(), s.Pending+s.Due)
	require.Equal(t, w.backlog.len, s.Backlog)
}

// checkIdle compares a round through the timers with the model.
func (r *rig) checkIdle(at time.Duration) {
	var seen, want []int
	looked, left := 0, 1+2*len(r.wheel.levels.slots.chunks)
	for from := uint32(0); ; left-- {
		idle, n, next := r.wheel.IdleSince(at, from)
		for _, timer := range idle {
			v, _ := timer.Value()
			seen = append(seen, v)
		}
		looked += n
		if from = next; from == 0 {
			break
		}
		require.Positive(r.t, left, "a round has an end")
	}
	for id, m := range r.model.timers {
		if m.state == pending {
			if time.Duration(m.touched)*r.model.tick <= at {
				want = append(want, id)
			}
		}
	}
	slices.Sort(seen)
	slices.Sort(want)
	require.Equal(r.t, want, seen)
	require.Equal(r.t, r.wheel.Len(), looked, "due timers, too")
}

// step does one operation. pick gives numbers in [0, n).
func (r *rig) step(pick func(n int) int) {
	turn := 1
	for _, l := range r.wheel.levels.level {
		turn *= int(l.size)
	}
	anyID := func(from map[int]*TimerOf[int]) (int, bool) {
		if len(from) == 0 {
			return 0, false
		}
		ids := make([]int, 0, len(from))
		for id := range from {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		return ids[pick(len(ids))], true
	}
	delay := func() time.Duration {
		ticks := 1 + pick(5)
		switch pick(4) {
		case 0:
			ticks = 1 + pick(turn)
		case 1:
			ticks = 1 + pick(3*turn)
		}
		return time.Duration(ticks)*r.model.tick - time.Duration(pick(2)*pick(int(r.model.tick)))
	}
	one := func(do func(id int)) {
		if id, ok := anyID(r.timers); ok {
			do(id)
		}
	}
	switch op := pick(26); op {
	case 0, 1, 2:
		r.add(delay())
	case 3, 4, 5:
		one(func(id int) { r.touch(id) })
	case 6, 7:
		one(func(id int) { r.move(id, delay()) })
	case 8:
		one(func(id int) { r.setDelay(id, delay()) })
	case 9:
		one(func(id int) { r.remove(id) })
	case 10:
		one(func(id int) { r.setDelay(id, delay()); r.touch(id) })
	case 11:
		one(func(id int) { r.expire(id) })
	case 12:
		if id, ok := anyID(r.ended); ok {
			require.ErrorIs(r.t, r.wheel.Start(r.ended[id], id, delay()), ErrArgument)
		}
	case 13:
		r.checkIdle(r.now - delay())
	case 14, 15:
		one(func(id int) { r.rearm(id, r.now+delay()) })
	case 16:
		one(func(id int) { // the instant may be in the past
			at, _ := r.timers[id].Touched()
			r.rearm(id, at+delay())
		})
	case 17:
		one(func(id int) { r.touchAt(id, delay()) })
	case 18:
		one(func(id int) { r.handOver(id) })
	case 19:
		one(func(id int) { r.look(id) })
	case 20:
		one(func(id int) { r.setLimit(id, pick(2*turn)) })
	case 21:
		r.lookAtClock(time.Duration(pick(2 * int(r.model.tick))))
	default:
		d := time.Duration(pick(2 * int(r.model.tick)))
		if pick(8) == 0 {
			d = time.Duration(pick(2*turn)) * r.model.tick
		}
		r.advance(d)
		// Due timers are decided at once, later, or never.
		for id, m := range r.model.timers {
			if m.state == due && id%3 != 0 {
				r.expire(id)
			}
		}
	}
	r.check()
}

var modelLevels = [][]int{
	{1},
	{2},
	{5},
	{16},
	{60},
	{4, 3},
	{1, 4},
	{3, 1, 2},
	{3, 4, 5},
	{60, 60},
	{2, 3, 2, 3},
	{4, 4, 4, 4},
}

func TestWheelAgreesWithModel(t *testing.T) {
	seeds := uint64(12)
	if testmain.Race {
		seeds = 4 // each sleep once
	}
	for _, levels := range modelLevels {
		t.Run(fmt.Sprintf("levels=%v", levels), func(t *testing.T) {
			for seed := range seeds {
				rnd := rand.New(rand.NewPCG(seed, 1))
				r := newSleeper(t, 10*time.Millisecond, 1+int(seed%4)*3, levels)
				for range 300 {
					r.step(rnd.IntN)
				}
			}
		})
	}
}

// FuzzWheel lets the fuzzer choose the levels and the operations of the model
// test.
func FuzzWheel(f *testing.F) {
	f.Add(uint8(3), []byte("adds, moves, advances and removes"))
	f.Add(uint8(9), []byte{0, 1, 2, 255, 14, 3, 3, 15, 0, 0, 6, 1, 8, 8, 14, 200, 100, 50})
	f.Fuzz(func(t *testing.T, levels uint8, script []byte) {
		n := len(modelLevels)
		r := newSleeper(t, 10*time.Millisecond, 1+int(levels)/n, modelLevels[int(levels)%n])
		more := func(n int) int {
			if len(script) == 0 {
				return 0
			}
			b := int(script[0])
			script = script[1:]
			if n > 256 && len(script) > 0 {
				b = b<<8 | int(script[0])
				script = script[1:]
			}
			return b % n
		}
		for range 300 {
			if len(script) == 0 {
				break
			}
			r.step(more)
		}
		// At the end everything expires, each once.
		for range 4 {
			r.advance(time.Duration(3*len(r.wheel.levels.slot)+20) * r.model.tick)
		}
		r.check()
	})
}
