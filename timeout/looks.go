package timeout

import (
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// askTimeout is how long a part of the engine may take for an answer before the others get the room for the tasks
	// that it was asked for.
	askTimeout = 250 * time.Millisecond

	// partsEvery is how often the engine is asked which parts it has: a server of a Cluster can take slots over.
	partsEvery = time.Second
)

// looks is when a worker or a dispatcher next looks for due tasks in each part of the engine, and what makes it look earlier.
type looks struct {
	c      *Center
	name   string        // of the topic
	wakeup chan struct{} // has an element if serve must plan anew

	// mu guards the fields below, and those of the worker or the dispatcher. It is not held during calls of the
	// engine or a handler.
	mu      sync.Mutex
	parts   []*part
	turn    int       // the part to be asked first
	renewed time.Time // when the parts were last asked for
}

// part is a part of the engine, as far as a topic of this node is concerned. looks.mu guards it.
type part struct {
	number int       // see engine.Parted; zero is the whole engine
	gone   bool      // the engine no longer has it, and it has only outcomes to be told
	idle   bool      // it has none of the slots to look at
	look   time.Time // the latest time of the next look
	clock  clock     // of the last answer
	calls  int       // under way
	begun  time.Time // when the last of them began
	asked  int       // tasks asked for by them, as long as it is not silent
	troubles

	// The fields below are for a dispatcher, which makes one call of a part at a time.

	looking int // the number of the last look
	looked  int // the number of the last one that has found all there was to find

	// The fields below are for a worker.

	outcomes []engine.Outcome // to be settled
	first    time.Time        // when the first of outcomes was added
	untold   []engine.Outcome // those that a slot could not be told
	again    time.Time        // when to tell them again
	full     bool             // whether the last batch had as many tasks as asked for: a backlog
	net      time.Time        // the time of the next look if nothing is known to be due before
	own      time.Time        // when a peek no longer does instead
	rescue   time.Time        // the time to look for late tasks in the slots of other nodes; zero before there is a view
	rescued  bool             // whether the last look was that one; then it is the turn of the own slots
}

// isCalling reports whether a part is asked. l.mu must be held.
func (l *looks) isCalling() bool {
	return slices.ContainsFunc(l.parts, func(p *part) bool { return p.calls > 0 })
}

// isSilent reports whether an answer takes long.
func (p *part) isSilent(now time.Time) bool { return p.calls > 0 && now.Sub(p.begun) >= askTimeout }

// attach makes l the looks at a topic.
func (l *looks) attach(c *Center, name string) {
	l.c, l.name, l.wakeup = c, name, make(chan struct{}, 1)
	if _, parted := c.engine.(engine.Parted); !parted {
		l.part(0)
	}
}

// part returns the part of that number. l.mu must be held.
func (l *looks) part(number int) *part {
	for _, p := range l.parts {
		if p.number == number {
			return p
		}
	}
	p := &part{number: number, idle: number > 0, troubles: newTroubles(number)}
	l.parts = append(l.parts, p)
	return p
}

// partOf returns the part that keeps a key. l.mu must be held.
func (l *looks) partOf(key Key) *part { return l.part(l.c.partOf(key)) }

// partOf returns the number of the part of the engine that keeps a key.
func (c *Center) partOf(key Key) int { return engine.PartOf(c.engine, key) }

// renew takes the parts of the engine, and which of them have the slots to look at. l.mu must be held.
func (l *looks) renew(slots []int, now time.Time) {
	parted, ok := l.c.engine.(engine.Parted)
	if !ok || now.Sub(l.renewed) < partsEvery {
		return
	}
	l.renewed = now
	all, own := parted.Parts(l.name, nil), parted.Parts(l.name, slots)
	for _, number := range all {
		l.part(number)
	}
	for _, p := range l.parts {
		p.gone, p.idle = !slices.Contains(all, p.number), !slices.Contains(own, p.number)
		p.full = p.full && !p.idle
	}
	l.parts = slices.DeleteFunc(l.parts, func(p *part) bool { return p.gone && p.calls+len(p.outcomes)+len(p.untold) == 0 })
}

// others reports whether there are slots to look at in other parts than p. l.mu must be held.
func (l *looks) others(p *part) bool {
	return slices.ContainsFunc(l.parts, func(other *part) bool { return other != p && !other.idle })
}

// inTurn returns the parts, those first that were not asked last. l.mu must be held.
func (l *looks) inTurn() []*part {
	if len(l.parts) == 1 {
		return l.parts
	}
	first := min(l.turn, len(l.parts))
	return slices.Concat(l.parts[first:], l.parts[:first])
}

// beginCall notes that a part is asked. l.mu must be held.
func (l *looks) beginCall(p *part, now time.Time) {
	p.calls++
	p.begun = now
	l.turn = slices.Index(l.parts, p) + 1
}

// endCall notes that a part has answered, or will not answer any more. It returns how many tasks it was still asked for.
// l.mu must be held.
func (l *looks) endCall(p *part, tasks int, err error, now time.Time) (asked int) {
	p.calls--
	asked = min(tasks, p.asked)
	p.asked -= asked
	p.full = p.full && err == nil
	l.answered(p, err, now)
	if p.number == 0 || err != nil {
		l.renewed = time.Time{} // the engine may know its parts now, or have others
	}
	signal(l.wakeup)
	return asked
}

// asked returns for how many tasks parts are asked. l.mu must be held.
func (l *looks) asked() (tasks int) {
	for _, p := range l.parts {
		tasks += p.asked
	}
	return tasks
}

// forgo counts silent parts as asked for nothing: their room is for the others. It returns how much that was, and how long it is
// until the next part may be silent, at most Center.poll. l.mu must be held.
func (l *looks) forgo(now time.Time) (freed int, wait time.Duration) {
	wait = l.c.poll()
	for _, p := range l.parts {
		switch {
		case p.asked == 0 || !l.others(p):
		case p.isSilent(now):
			freed += p.asked
			p.asked = 0
		default:
			wait = min(wait, askTimeout-now.Sub(p.begun))
		}
	}
	return freed, wait
}

// lookNow makes serve look at once. l.mu must be held.
func (l *looks) lookNow() {
	for _, p := range l.parts {
		p.look = time.Time{}
	}
	signal(l.wakeup)
}

// lookAt makes serve look at a part at that time at the latest. l.mu must be held.
func (l *looks) lookAt(p *part, at time.Time) {
	if at.Before(p.look) {
		p.look = at
		signal(l.wakeup)
	}
}

// woken makes serve look: somebody may have set a task.
func (l *looks) woken() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookNow()
}

// expect makes serve look when a task is due, by the engine's clock.
func (l *looks) expect(key Key, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.partOf(key)
	l.lookAt(p, p.clock.at(due))
}

// signal puts an element into a channel of capacity one if it is empty.
func signal(wakeup chan<- struct{}) {
	select {
	case wakeup <- struct{}{}:
	default:
	}
}
