package timeout

import (
	"context"
	"maps"
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
	met    time.Time // when a task with a callback of its own was last met
	common string    // the circuit of the topic's callback; empty if there is none, or nothing is known of it
	leases leasing   // how many tasks may be leased now

	stranded overdue // tasks without a callback, if the node is not able
	lacking  overdue // tasks of own slots with callbacks of their own, for which the node lacks the Caller

	putOff []putOff // the tasks put off, and not back
	pacer  pacer    // of them

	search search // for tasks with callbacks of their own
}

// own reports whether there are tasks with callbacks of their own, or were until metFor ago.
func (h *hold) own(now time.Time) bool { return !h.met.IsZero() && now.Sub(h.met) <= metFor }

// overdue is due tasks that the node can't run.
type overdue struct {
	since time.Time
	until time.Time // when they are back; then there may be none
}

// note notes one that is back then.
func (t *overdue) note(now, back time.Time) {
	if !now.Before(t.until) {
		t.since = now
	}
	if back.After(t.until) {
		t.until = back
	}
}

// lasts reports whether there are any, for so long at least.
func (t *overdue) lasts(now time.Time, least time.Duration) bool {
	return now.Before(t.until) && now.Sub(t.since) >= least
}

// search is where to look for tasks with callbacks of their own.
type search struct {
	cursor  string    // of the page of waiting tasks to look at next
	next    time.Time // when to look at it
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
		h.stranded = overdue{}
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
	h := &w.hold
	own := h.own(now)
	if h.met = now; own {
		return
	}
	if back := now.Add(2 * w.c.cfg.CircuitWait); h.stranded.until.After(back) { // they are no longer held, but put off
		h.stranded.until = back
	}
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
	h, leases := &w.hold, leaseAny
	switch {
	case h.own(now) || w.topic.Pull || awaitsResume(w.topic):
	case h.stranded.lasts(now, 0), h.unable && w.unbegun():
		leases = leaseNone
	case h.unable:
		leases = leaseOne // it tells what the others are like
	case h.common != "":
		at, open := w.c.circuits.of(h.common).turn(w.caller(w.topic.Callback), w.wakeup, now)
		if !open {
			break
		}
		w.queue = slices.DeleteFunc(w.queue, func(a *attempt) bool {
			if !a.trial {
				w.release(a, &w.counts.Postponed, 0)
			}
			return !a.trial
		})
		switch {
		case w.tries(nil):
			leases = leaseNone
		case at.After(now):
			leases, until = leaseNone, at
		default:
			leases = leaseOne
		}
	}
	if leases < h.leases {
		w.lookNow()
	}
	if h.leases = leases; w.holds(now) {
		signal(w.c.held)
	}
	return until
}

// unbegun reports whether a leased task has not begun. w.mu must be held.
func (w *worker) unbegun() bool {
	for a := range w.held {
		if a.begun.IsZero() {
			return true
		}
	}
	return false
}

// holds reports whether what is due waits in the engine, since it can't be run now. w.mu must be held.
func (w *worker) holds(now time.Time) bool {
	h := &w.hold
	return !w.stopping && h.leases != leaseAny && !h.own(now) && (!h.unable || h.stranded.lasts(now, 0))
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

// passes lets others try the target if nothing was leased for a trial. w.mu must be held.
func (w *worker) passes() {
	if h := &w.hold; h.common != "" && !h.own(time.Now()) && h.leases != leaseAny {
		w.c.circuits.of(h.common).pass(w.caller(w.topic.Callback))
	}
}

// refuse hands an attempt back that is not made since the circuit is open.
func (w *worker) refuse(a *attempt, c *circuit, caller string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if a.Callback == nil && !w.hold.own(now) && w.hold.common != "" {
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
	if a.Callback == nil && h.unable && !h.own(now) {
		h.stranded.note(now, now.Add(engine.MaxDuration)) // until found finds none
		w.release(a, &w.counts.Postponed, 0)
		signal(w.wakeup)
		return
	}
	wait, longest := w.c.cfg.CircuitWait, w.c.cfg.CircuitWait
	if len(h.putOff) > 0 {
		longest = max(longest, now.Sub(h.putOff[0].begun))
	}
	after := h.pacer.after(now, wait, longest)
	switch back := now.Add(after + wait); {
	case a.Callback == nil && h.unable:
		h.stranded.note(now, back)
	case a.Callback != nil && w.owns(a): // else their owner may run it
		h.lacking.note(now, back)
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
	workers := slices.Collect(maps.Values(c.workers))
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
	if !w.holds(now) {
		w.hold.search = search{}
		return query, false, false
	}
	s := &w.hold.search
	if !s.restart.IsZero() && !now.Before(s.restart) {
		s.cursor, s.restart = "", time.Time{}
	}
	return engine.Query{Topic: w.name, State: Pending, Limit: engine.MaxPage, Cursor: s.cursor, OmitPayload: true}, true, !now.Before(s.next)
}

// found takes a page of waiting tasks.
func (w *worker) found(query engine.Query, page engine.Page, err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, s := &w.hold, &w.hold.search
	s.next = now.Add(max(w.c.cfg.CircuitWait, searchEvery))
	if err != nil {
		s.cursor = ""
		return
	}
	if query.Cursor == "" {
		s.begun = now
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
	if query.Cursor == "" && !due && h.stranded.lasts(now, 0) { // somebody has removed or moved them
		h.stranded = overdue{}
		w.lookNow()
	}
	if page.Next != "" && last {
		s.cursor, s.next = page.Next, now.Add(searchEvery)
	} else if s.restart.IsZero() {
		s.restart = now.Add(min(max(now.Sub(s.begun), w.c.cfg.CircuitWait), searchRestart))
	}
}
