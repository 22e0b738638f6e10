package timeout

import (
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// askTimeout is how long a part of the engine may take for an answer before the others get the room for the tasks
	// that it was asked for.
	askTimeout = 250 * time.Millisecond

	// partsEvery is how often the engine is asked which parts it has: a server of a Cluster can take slots over.
	partsEvery = time.Second
)

// part is a part of the engine, as far as a topic of this node is concerned. leaser.mu guards it.
type part struct {
	number  int       // see engine.Parted; zero is the whole engine
	gone    bool      // the engine no longer has it, and it has only outcomes to be told
	idle    bool      // it has none of the slots to look at
	look    time.Time // the latest time of the next look
	clock   clock     // of the last answer
	calls   int       // under way
	begun   time.Time // when the last of them began
	asked   int       // tasks asked for by them, as long as it is not silent
	until   time.Time // when it may be asked again after a failure; zero after an answer
	failing error     // the first failure since an answer
	backoff *backoff.ExponentialBackOff

	outcomes []engine.Outcome // to be settled
	first    time.Time        // when the first of outcomes was added
	untold   []engine.Outcome // those that a slot could not be told
	again    time.Time        // when to tell them again

	// The fields below are for a dispatcher.

	looking int // the number of the last look
	looked  int // the number of the last one that has found all there was to find

	// The fields below are for a worker.

	full    bool      // whether the last batch had as many tasks as asked for: a backlog
	net     time.Time // the time of the next look if nothing is known to be due before
	own     time.Time // when a peek no longer does instead
	rescue  time.Time // the time to look for late tasks in the slots of other nodes; zero before there is a view
	rescued bool      // whether the last look was that one; then it is the turn of the own slots
}

// isSilent reports whether an answer takes long.
func (p *part) isSilent(now time.Time) bool { return p.calls > 0 && now.Sub(p.begun) >= askTimeout }

// part returns the part of that number. l.mu must be held.
func (l *leaser) part(number int) *part {
	for _, p := range l.parts {
		if p.number == number {
			return p
		}
	}
	p := &part{number: number, idle: number > 0, backoff: newBackoff(number)}
	l.parts = append(l.parts, p)
	return p
}

// partOf returns the part that keeps a key. l.mu must be held.
func (l *leaser) partOf(key Key) *part { return l.part(l.c.partOf(key)) }

// partOf returns the number of the part of the engine that keeps a key.
func (c *Center) partOf(key Key) int { return engine.PartOf(c.engine, key) }

// renew takes the parts of the engine, and which of them have the slots to look at. l.mu must be held.
func (l *leaser) renew(slots []int, now time.Time) {
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
func (l *leaser) others(p *part) bool {
	return slices.ContainsFunc(l.parts, func(other *part) bool { return other != p && !other.idle })
}

// isCalling reports whether a part is asked. l.mu must be held.
func (l *leaser) isCalling() bool {
	return slices.ContainsFunc(l.parts, func(p *part) bool { return p.calls > 0 })
}

// asked returns for how many tasks parts are asked. l.mu must be held.
func (l *leaser) asked() (tasks int) {
	for _, p := range l.parts {
		tasks += p.asked
	}
	return tasks
}

// promise changes for how many tasks a part is asked. l.mu must be held.
func (l *leaser) promise(p *part, tasks int) {
	p.asked += tasks
	if l.fair != nil {
		l.fair.ask(tasks)
	}
}

// forgo counts silent parts as asked for nothing: their room is for the others. It returns how long it is until the next
// part may be silent, at most Center.poll. l.mu must be held.
func (l *leaser) forgo(now time.Time) (wait time.Duration) {
	wait = l.c.poll()
	for _, p := range l.parts {
		switch {
		case p.asked == 0 || !l.others(p):
		case p.isSilent(now):
			l.promise(p, -p.asked)
		default:
			wait = min(wait, askTimeout-now.Sub(p.begun))
		}
	}
	return wait
}

// lookNow makes serve look at once. l.mu must be held.
func (l *leaser) lookNow() {
	for _, p := range l.parts {
		p.look = time.Time{}
	}
	signal(l.wakeup)
}

// lookAt makes serve look at a part at that time at the latest. l.mu must be held.
func (l *leaser) lookAt(p *part, at time.Time) {
	if at.Before(p.look) {
		p.look = at
		signal(l.wakeup)
	}
}

// woken makes serve look: somebody may have set a task.
func (l *leaser) woken() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookNow()
}

// expect makes serve look when a task is due, by the engine's clock.
func (l *leaser) expect(key Key, due time.Time) {
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
