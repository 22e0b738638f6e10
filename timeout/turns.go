package timeout

import (
	"slices"
	"strings"
	"time"
)

// turns is the order in which callers have the trials of an open circuit. Their topics take turns. Within a topic it is first
// come, first served. Callers whose last call succeeded form a group like a topic, with every other trial, since a host can have a
// good URL beside bad ones. So a flood of new bad URLs delays its own trials, and no other topic, older URL or
// working one.
type turns struct {
	waiting []*waiter // since the circuit opened; the turn of the first comes first
	well    []string  // callers whose last call succeeded; the latest is the last
}

// waiter is a caller in need of a trial. One of its tasks comes back then, or its worker leases one.
type waiter struct {
	caller string
	group  string        // its topic, or wellGroup
	since  time.Time     // since when the group waits; zero if the next trial is for it
	back   time.Time     // when it is there; a past time says nothing of the next trial
	wakeup chan struct{} // of the worker; nil for a task
}

const (
	// waitersMost is how many waiters are remembered. Then those not about to come are forgotten.
	waitersMost = 1000

	// waitersNear is for about how many callers a task comes back for the next trial.
	waitersNear = 16

	// wellMost is how many callers are remembered as well.
	wellMost = 16

	// wellGroup is no topic.
	wellGroup = ""
)

// join returns the waiter of a caller. A new one is the last of its group, and a new group is the last one.
func (t *turns) join(caller string, now time.Time) *waiter {
	group, _, _ := strings.Cut(caller, " ") // see worker.caller
	if slices.Contains(t.well, caller) {
		group = wellGroup
	}
	since := now
	for _, w := range t.waiting {
		if w.caller == caller {
			return w
		}
		if w.group == group {
			since = w.since
		}
	}
	if len(t.waiting) >= waitersMost {
		t.waiting = slices.DeleteFunc(t.waiting, func(w *waiter) bool { return now.Sub(w.back) > trialTurn })
	}
	w := &waiter{caller: caller, group: group, since: since}
	t.waiting = append(t.waiting, w)
	t.sort()
	return w
}

func (t *turns) sort() {
	slices.SortStableFunc(t.waiting, func(a, b *waiter) int { return a.since.Compare(b.since) })
}

// quit takes a caller out, and returns its waiter, or nil.
func (t *turns) quit(caller string) *waiter {
	i := slices.IndexFunc(t.waiting, func(w *waiter) bool { return w.caller == caller })
	if i < 0 {
		return nil
	}
	w := t.waiting[i]
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return w
}

// serve notes the trial of a caller. It is well again when that succeeds. The missed waiters were ahead of it, and did not come.
func (t *turns) serve(caller string, missed []*waiter, now time.Time) {
	missed = append(missed, t.join(caller, now))
	t.quit(caller)
	for _, w := range t.waiting {
		switch {
		case slices.ContainsFunc(missed, func(m *waiter) bool { return m.group == w.group }):
			w.since = now
		case w.group == wellGroup:
			w.since = time.Time{}
		}
	}
	t.sort()
	t.judge(caller, false)
}

// judge notes a result.
func (t *turns) judge(caller string, well bool) {
	if i := slices.Index(t.well, caller); i >= 0 {
		t.well = slices.Delete(t.well, i, i+1)
	}
	if !well {
		return
	}
	if len(t.well) == wellMost {
		t.well = slices.Delete(t.well, 0, 1)
	}
	t.well = append(t.well, caller)
}

// before returns the waiters ahead of a caller that arrive between two times. All are ahead of a caller that does not wait.
func (t *turns) before(caller string, from, to time.Time) (before []*waiter) {
	for _, w := range t.waiting {
		if w.caller == caller {
			break
		}
		if !w.back.Before(from) && !w.back.After(to) {
			before = append(before, w)
		}
	}
	return before
}

// isNear reports whether a task of a waiter should be there for the next trial. before are the waiters ahead of it.
func (w *waiter) isNear(before []*waiter) bool {
	return len(before) < waitersNear || !slices.ContainsFunc(before, func(b *waiter) bool { return b.group == w.group })
}
