package timeout

import (
	"context"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// A node can't run some tasks now: those of the topic's callback while its circuit is open, and those without any
// callback if it has no handler. If a topic has no others, its worker holds: it leases none, or one for each trial of
// the circuit. So what waits costs nothing, however much it is, and keeps its time. If tasks have callbacks of their
// own, the worker must lease the others to reach them, and puts the others off. It knows of those that it has leased,
// and of those set on this node. While it holds, Center.search looks for more of them. It holds again if it has met none
// for metFor.

const (
	// While a worker holds, it looks at one page of waiting tasks per searchEvery. After the last due task it
	// looks at the following ones after CircuitWait. After as long as all pages took, it looks at all again, since a
	// task may have been set to a time before: not before CircuitWait, and not later than searchRestart.
	searchEvery   = time.Second
	searchRestart = 5 * time.Minute

	// metFor is how long a worker does not hold after it has met a task with a callback of its own.
	metFor = 5 * time.Minute

	// putOffMerged is the time for which tasks put off are remembered together.
	putOffMerged = 5 * time.Second
)

// hold is what a worker knows of tasks that it can't run. worker.mu guards it.
type hold struct {
	unable bool      // whether the node has no handler, and can't make a callback of the topic
	own    bool      // whether there are tasks with callbacks of their own, or were until metFor ago
	met    time.Time // when the last of them was met
	common string    // the circuit of the topic's callback; empty if there is none, or nothing is known of it
	leases leasing   // how many tasks may be leased now

	stranded time.Time // since when tasks without a callback are due and the node is not able; zero if there are none
	until    time.Time // when they are back, if the node puts them off

	lacking     time.Time // since when tasks of own slots are due and the node lacks the Caller of their own callbacks
	lackingTill time.Time // when they are back

	putOff []putOff // the tasks put off, and not back
	pacer  pacer    // of them

	cursor  string    // of the page of waiting tasks to look at next
	search  time.Time // when to look at it
	begun   time.Time // when the first page was looked at
	restart time.Time // when to begin with the first page again; zero until the last due task is looked at
}

// leasing is how many tasks a worker may lease.
type leasing int8

const (
	leaseAny leasing = iota
	leaseOne
	leaseNone
)

// putOff stands for tasks put off about the same time.
type putOff struct {
	begun time.Time
	due   time.Time // the earliest action time of them
	until time.Time // when the last of them is back
}

// canRun reports whether this node can run tasks of a topic without a callback of their own.
func (c *Center) canRun(topic Topic, handler Handler) bool {
	return handler != nil || !topic.Pull && topic.Callback != nil && c.cfg.Callers[topic.Callback.Kind] != nil
}

// adapt fits the hold to another topic or handler. w.mu must be held.
func (w *worker) adapt(topic Topic, handler Handler) {
	h := &w.hold
	before := *h
	if handler != nil || topic.Callback == nil || w.topic.Callback == nil || !sameTarget(*w.topic.Callback, *topic.Callback) {
		h.common = ""
	}
	if h.unable = !w.c.canRun(topic, handler); !h.unable {
		h.stranded = time.Time{}
	}
	if h.unable != before.unable || h.common != before.common {
		signal(w.wakeup)
	}
}

func sameTarget(a, b Callback) bool { return a.Kind == b.Kind && a.Target == b.Target }

// learn notes the circuit of the topic's callback.
func (w *worker) learn(name string, call Callback) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handler == nil && w.topic.Callback != nil && sameTarget(*w.topic.Callback, call) {
		w.hold.common = name
	}
}

// caller returns a name for what the trial of a circuit goes round among: topics and targets.
func (w *worker) caller(call *Callback) string { return w.name + " " + call.Target }

// meets notes that there are tasks with callbacks of their own. w.mu must be held.
func (w *worker) meets(now time.Time) {
	w.hold.met = now
	if w.hold.own || w.topic.Pull {
		return
	}
	w.hold.own, w.hold.until = true, now.Add(2*w.c.cfg.CircuitWait)
	w.lookNow()
}

// meet is meets for tasks that this node has set.
func (c *Center) meet(tasks ...Task) {
	last := ""
	for i := range tasks {
		if tasks[i].Callback == nil || tasks[i].Topic == last {
			continue
		}
		last = tasks[i].Topic
		c.mu.Lock()
		w, node := c.workers[last], c.takeBare(last)
		c.mu.Unlock()
		if node != "" {
			c.cfg.Logger.Warn("timeout: a task has a callback of its own, and a node with a handler for its topic has no Callers: the task waits while its slot belongs to that node", "topic", last, "node", node)
		}
		if w != nil {
			w.mu.Lock()
			w.meets(time.Now())
			w.mu.Unlock()
		}
	}
}

// restrain sets how many tasks may be leased now: any number, one or none. It returns when that may change, if it
// knows. w.mu must be held.
func (w *worker) restrain(now time.Time) (until time.Time) {
	h := &w.hold
	if h.own && now.Sub(h.met) > metFor {
		if h.own = false; !now.Before(h.until) {
			h.stranded = time.Time{} // none of them has come back
		}
	}
	leases, holds := leaseAny, false
	switch {
	case h.own || w.topic.Pull:
	case !h.stranded.IsZero():
		leases, holds = leaseNone, true
	case h.unable && len(w.held) > 0:
		leases = leaseNone
	case h.unable:
		leases = leaseOne // it tells what the others are like
	case h.common != "":
		c := w.c.circuits.known(h.common)
		if c == nil {
			break
		}
		at, open := c.turn(w.caller(w.topic.Callback), w.wakeup, now)
		if !open {
			break
		}
		leases, holds = leaseOne, true
		w.queue = slices.DeleteFunc(w.queue, func(a *attempt) bool {
			if !a.trial {
				w.release(a, &w.counts.Postponed, 0)
			}
			return !a.trial
		})
		if at.After(now) || w.tries(nil) {
			leases, until = leaseNone, at
		}
	}
	if leases < h.leases {
		w.lookNow()
	}
	h.leases = leases
	if holds {
		signal(w.c.held)
	}
	return until
}

// tries reports whether a task is leased for a trial that has not begun, but for that of an attempt. w.mu must be held.
func (w *worker) tries(but *attempt) bool {
	for a := range w.held {
		if a != but && a.trial && a.visit == nil {
			return true
		}
	}
	return false
}

// claims reports whether the worker may ask for ask.Max tasks: if it is one for a trial, no other worker may lease
// one at the same time. w.mu must be held.
func (w *worker) claims(now time.Time) bool {
	c := w.trialled()
	return c == nil || c.claim(w.caller(w.topic.Callback), now)
}

// unclaim gives a claim back if nothing was leased for a trial. w.mu must be held.
func (w *worker) unclaim() {
	if c := w.trialled(); c != nil {
		c.unclaim(w.caller(w.topic.Callback))
	}
}

// trialled returns the circuit for whose trial the worker leases, or nil. w.mu must be held.
func (w *worker) trialled() *circuit {
	if w.hold.common == "" || w.hold.own || w.hold.leases == leaseAny {
		return nil
	}
	return w.c.circuits.known(w.hold.common)
}

// refuse hands an attempt back that is not made since the circuit is open.
func (w *worker) refuse(a *attempt, c *circuit, caller string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if a.Callback == nil && !w.hold.own && w.hold.common != "" {
		w.release(a, &w.counts.Postponed, 0) // and the worker holds
		signal(w.wakeup)
		return
	}
	w.defers(a, now, c.putOff(caller, now))
}

// strand hands an attempt back for which this node has no handler, callback or Caller.
func (w *worker) strand(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, now := &w.hold, time.Now()
	if a.Callback == nil && h.unable {
		if h.stranded.IsZero() || h.own && now.After(h.until) {
			h.stranded = now
		}
		if !h.own {
			w.release(a, &w.counts.Postponed, 0)
			signal(w.wakeup)
			return
		}
	}
	wait, longest := w.c.cfg.CircuitWait, w.c.cfg.CircuitWait
	if len(h.putOff) > 0 {
		longest = max(longest, now.Sub(h.putOff[0].begun))
	}
	after := h.pacer.after(now, wait, longest)
	back := now.Add(after + wait)
	switch {
	case a.Callback == nil && back.After(h.until):
		h.until = back
	case a.Callback != nil && w.owns(a): // else their owner may run it
		if now.After(h.lackingTill) {
			h.lacking = now
		}
		if back.After(h.lackingTill) {
			h.lackingTill = back
		}
	}
	w.defers(a, now, after)
}

// owns reports whether a task is in a slot of this node. w.mu must be held.
func (w *worker) owns(a *attempt) bool {
	if w.slots == nil {
		return true
	}
	_, own := slices.BinarySearch(w.slots, engine.Slot(a.ID, w.topic.Slots))
	return own
}

// defers puts an attempt off, and remembers its action time. w.mu must be held.
func (w *worker) defers(a *attempt, now time.Time, after time.Duration) {
	if a.over {
		return
	}
	w.release(a, &w.counts.Postponed, after)
	due, until := w.partOf(a.Key()).clock.at(a.Due), now.Add(after)
	h := &w.hold
	if last := len(h.putOff) - 1; last >= 0 && now.Sub(h.putOff[last].begun) < putOffMerged {
		one := &h.putOff[last]
		if due.Before(one.due) {
			one.due = due
		}
		if until.After(one.until) {
			one.until = until
		}
		return
	}
	h.putOff = slices.DeleteFunc(h.putOff, func(p putOff) bool { return p.until.Before(now) })
	h.putOff = append(h.putOff, putOff{now, due, until})
}

// lag returns for how long the first of the tasks put off has been due.
func (w *worker) lag(now time.Time) (lag time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.hold.putOff {
		if p.until.After(now) {
			lag = max(lag, now.Sub(p.due))
		}
	}
	return lag
}

// search looks for tasks with callbacks of their own while workers hold, until ctx ends.
func (c *Center) search(ctx context.Context) {
	for {
		select {
		case <-c.held:
		case <-ctx.Done():
			return
		}
		for c.searchOnce(ctx) {
			select {
			case <-time.After(searchEvery):
			case <-ctx.Done():
				return
			}
		}
	}
}

// searchOnce looks once, and reports whether workers hold.
func (c *Center) searchOnce(ctx context.Context) (hold bool) {
	c.mu.Lock()
	workers := make([]*worker, 0, len(c.workers))
	for _, w := range c.workers {
		workers = append(workers, w)
	}
	c.mu.Unlock()
	for _, w := range workers {
		query, holds, due := w.seeks(time.Now())
		hold = hold || holds
		if due {
			ctx, cancel := context.WithTimeout(ctx, engineTimeout)
			page, err := c.engine.List(ctx, query)
			cancel()
			w.found(query, page, err, time.Now())
		}
	}
	return hold
}

// seeks returns the next page to look at, whether the worker holds, and whether it is time to look.
func (w *worker) seeks(now time.Time) (query engine.Query, holds, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &w.hold
	holds = !w.stopping && h.leases != leaseAny && !h.own && (!h.unable || !h.stranded.IsZero())
	if !holds {
		h.cursor, h.search, h.restart = "", time.Time{}, time.Time{}
		return query, false, false
	}
	if !h.restart.IsZero() && !now.Before(h.restart) {
		h.cursor, h.restart = "", time.Time{}
	}
	return engine.Query{Topic: w.name, State: Pending, Limit: engine.MaxPage, Cursor: h.cursor, OmitPayload: true}, true, !now.Before(h.search)
}

// found takes a page of waiting tasks.
func (w *worker) found(query engine.Query, page engine.Page, err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &w.hold
	h.search = now.Add(max(w.c.cfg.CircuitWait, searchEvery))
	if err != nil {
		h.cursor = ""
		return
	}
	if query.Cursor == "" {
		h.begun = now
	}
	due, last := false, false
	for i := range page.Tasks {
		if page.Tasks[i].Callback != nil {
			w.meets(now)
			return
		}
		last = !w.partOf(page.Tasks[i].Key()).clock.at(page.Tasks[i].Until).After(now)
		due = due || last
	}
	if query.Cursor == "" && !due && !h.stranded.IsZero() { // somebody has removed or moved them
		h.stranded = time.Time{}
		w.lookNow()
	}
	if page.Next != "" && last {
		h.cursor, h.search = page.Next, now.Add(searchEvery)
	} else if h.restart.IsZero() {
		h.restart = now.Add(min(max(now.Sub(h.begun), w.c.cfg.CircuitWait), searchRestart))
	}
}
