//go:build ignore

// This file becomes a part of each copy of package wheel, for the explorer has to see a few
// unexported names.

package wheel

import (
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel/internal/explore"
)

// keyed is what the wheel with keys has of a timer. The key of each timer is its number, and so is its value.
type keyed = *entry[int, int]

// subject is a wheel to explore, with two timers, and a face with keys.
type subject struct {
	*WheelOf[keyed]
	keys  TimingWheel[int, int]
	entry [2]entry[int, int]
	ended int // calls of Funcs.Ended
}

// names are what traces call the words and the shards.
var names = [2][2]string{{"A.word", "A.shard"}, {"B.word", "B.shard"}}

// seed has the same shards in each run, and two for two keys.
var seed = func() maphash.Seed {
	for {
		tw := TimingWheel[int, int]{seed: maphash.MakeSeed()}
		a, _ := tw.shard(0)
		b, _ := tw.shard(1)
		if a != b {
			return tw.seed
		}
	}
}()

// NewSubject makes a wheel with the given clock. Nothing moves its hand but Advance.
func NewSubject(tick, sleep time.Duration, levels []int, since func() time.Duration) explore.Wheel {
	s := new(subject)
	w, err := newOf(Config{Tick: tick, MaxSleep: sleep, Levels: levels, Stall: -1}, Funcs[keyed]{
		Due:   func(*TimerOf[keyed], keyed) {},
		Ended: func() { s.ended++ },
	})
	if err != nil {
		panic(err)
	}
	w.since = since
	w.workers.running = math.MaxInt32 // no worker starts: TakeUp does their work
	w.mu.Name("mu")
	w.timeMu.Name("timeMu")
	w.clock.now.GuardedBy(&w.timeMu)
	w.clock.over.GuardedBy(&w.timeMu)
	w.clock.now.Name("now")
	w.clock.over.Name("over")
	s.keys.engine, s.keys.seed = w, seed
	for i := range s.entry {
		e := &s.entry[i]
		e.key, e.value = i, i
		e.timer.word.Name(names[i][0])
		shard, hash := s.keys.shard(i)
		shard.mu.Name(names[i][1])
		shard.put(e, hash)
	}
	s.WheelOf = w
	return s
}

// timer is a timer with its key for a value.
type timer struct{ *TimerOf[keyed] }

func (t timer) Remove() (int, bool) { return number(t.TimerOf.Remove()) }

func (t timer) Expire() (int, bool) { return number(t.TimerOf.Expire()) }

func (t timer) ExpireSeen() (int, bool) { return number(t.TimerOf.ExpireSeen()) }

func (t timer) Value() (int, bool) { return number(t.TimerOf.Value()) }

// number returns the number of a timer from its value.
func number(v keyed, ok bool) (int, bool) {
	if v == nil {
		return 0, ok
	}
	return v.value, ok
}

func (t timer) Look() (from, at, dueAt time.Duration, quiet, isDue bool) {
	saw := t.TimerOf.Look()
	return saw.From, saw.Touched, saw.DueAt, saw.Quiet, saw.IsDue
}

func (s *subject) Timer(i int) explore.Timer { return timer{&s.entry[i].timer} }

func (s *subject) Start(i int, d time.Duration) bool {
	return s.WheelOf.Start(&s.entry[i].timer, &s.entry[i], d) == nil
}

func (s *subject) MoveTimer(i int, d time.Duration) bool { return s.keys.MoveTimer(i, d) == nil }

func (s *subject) Advance() { s.advance() }

func (s *subject) Wake() time.Duration { return s.wake }

func (s *subject) Lag(tick uint64) time.Duration { return s.lag.of(tick) }

func (s *subject) TakeUp() (i int, ok bool) {
	_, v, ok := s.takeUp()
	return number(v, ok)
}

func (s *subject) Seen() (times [2]int8) {
	for t := range s.All() {
		for i := range s.entry {
			if t == &s.entry[i].timer {
				times[i]++
			}
		}
	}
	return times
}

func (s *subject) Tick() uint64 { return s.clock.now.Peek() }

func (s *subject) State(i int) explore.State {
	switch s.entry[i].timer.word.Peek() & stateMask {
	case unstarted:
		return explore.Unstarted
	case pending:
		return explore.Pending
	case due:
		return explore.Due
	case expired:
		return explore.Expired
	default:
		return explore.Removed
	}
}

// Check looks for timers filed twice, in a wrong place, or not at all.
func (s *subject) Check() error {
	var filed [len(s.entry) + 1]int // the last is of unknown timers
	of := func(t *TimerOf[keyed]) *int {
		for i := range s.entry {
			if t == &s.entry[i].timer {
				return &filed[i]
			}
		}
		return &filed[len(s.entry)]
	}
	check := func(to *slot[keyed], state word, visit uint64, popped int, gaps bool) error {
		n := 0
		for c := to.first; c != nil; c = c.next {
			if c.slot != to || c.visit != visit || s.levels.slots.chunks[c.id] != c || c.next == nil && to.last != c {
				return fmt.Errorf("a chunk has wrong links")
			}
			if c.n == 0 || c.next != nil && c.n < chunkSize {
				return fmt.Errorf("a chunk has %d timers, must be full unless it is the last, and never empty", c.n)
			}
			for i, t := range c.entry[:c.n] {
				if n++; t == nil && (gaps || n <= popped) {
					continue
				}
				*of(t)++
				if t == nil || t.filed != c.id<<chunkBits|uint32(i) || t.word.Peek()&stateMask != state {
					return fmt.Errorf("an entry has no timer, or one filed elsewhere, or one in another state")
				}
				if by := s.clock.now.Peek() + t.delay + 1; state == pending && visit > by {
					return fmt.Errorf("the visit is on tick %d, and a touch needs it by %d", visit, by)
				}
			}
		}
		if n != to.len+popped {
			return fmt.Errorf("a slot has %d timers, and counts %d", n, to.len)
		}
		return nil
	}
	for i := range s.levels.slot {
		visit := s.levels.next(s.hand, i)
		if err := check(&s.levels.slot[i], pending, visit, 0, false); err != nil {
			return err
		}
	}
	if err := check(&s.held, pending, 0, 0, true); err != nil {
		return err
	}
	if err := check(&s.backlog.slot, due, never, int(s.backlog.popped), false); err != nil {
		return err
	}
	if err := check(&s.undecided, due, never, 0, false); err != nil {
		return err
	}
	running, ended := 0, 0
	for i := range s.entry {
		t, want := &s.entry[i].timer, 0
		switch word := t.word.Peek(); {
		case isRunning(word):
			want = 1
			running++
		case word&stateMask != unstarted:
			ended++
		}
		if filed[i] != want {
			return fmt.Errorf("timer %c is filed %d times, must be %d", 'A'+i, filed[i], want)
		}
	}
	if s.Len() != running || s.ended != ended {
		return fmt.Errorf("counted %d running and %d ended, must be %d and %d", s.Len(), s.ended, running, ended)
	}
	return nil
}

// next returns the tick of the hand's next visit to a slot.
func (l *levels[V]) next(hand uint64, slot int) uint64 {
	i := len(l.level) - 1
	for l.level[i].first > slot {
		i--
	}
	v := &l.level[i]
	block := hand/v.unit + 1
	return (block + (uint64(slot-v.first)+v.size-block%v.size)%v.size) * v.unit
}
