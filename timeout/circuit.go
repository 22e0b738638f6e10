package timeout

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// circuits keep dead targets from holding up the others: after too many failures in a row a
// target gets no call for a while, and then single calls as trials. The worker bounds the simultaneous
// calls of a target.
type circuits struct {
	failures int
	wait     time.Duration

	mu    sync.Mutex
	all   map[string]*circuit
	kept  int       // how many are remembered at least: circuitsKept, but in tests
	limit int       // with more targets than that, and than kept, some are forgotten before next
	next  time.Time // when some are forgotten if there are more than kept
}

// circuit is a unit that fails as a whole, such as a host. After too many failures in a row it is open. Then a trial
// begins after each wait, also if the one before has not ended: a call may take long, and says nothing before its end. From
// the time of the first trial on, any call that succeeds closes the circuit, be it older.
type circuit struct {
	failures int // in a row that open it; at most zero means that none do
	wait     time.Duration

	mu       sync.Mutex // guards the fields below
	calls    int        // under way
	answered time.Time  // when the last one succeeded, or the first one began
	failed   int        // calls that failed in a row
	opened   time.Time  // when the circuit opened; zero while it is closed
	age      int        // how many times it has opened and closed
	until    time.Time  // no further trial before, while it is open
	trials   int        // under way, without a result
	turns    turns      // of the trials
	pacer    pacer      // of the tasks put off that don't come back for a trial
}

const (
	// circuitHangs is how long a target must go without a successful call to count as hanging.
	circuitHangs = time.Second

	// circuitsKept is how many targets are remembered at least. Beyond it some are forgotten: see forget.
	circuitsKept = 10_000

	// circuitUnwanted is how long after its time for a trial an open circuit is remembered at least.
	circuitUnwanted = time.Minute

	// trialTurn bounds how long a trial waits for the callers ahead: for their arrival, and for a task to try.
	trialTurn = time.Second

	// trialLast is the least time for which a trial has the circuit for itself, unless it ends before.
	trialLast = time.Second

	// maxTrials is how many trials of a circuit may be under way. Each of those that hang doubles the wait for the next.
	maxTrials = 4
)

// errNoCall stands for a call broken off by this node, or an impossible one. It says nothing of the
// target.
var errNoCall = errors.New("timeout: no call")

// of returns the circuit of that name.
func (cs *circuits) of(name string) *circuit {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.all[name]; c != nil {
		return c
	}
	now := time.Now()
	if len(cs.all) >= cs.kept && (len(cs.all) >= cs.limit || now.After(cs.next)) {
		cs.forget(now)
	}
	c := &circuit{failures: cs.failures, wait: cs.wait, answered: now}
	cs.all[name] = c
	return c
}

// forget forgets targets: those that are well; if too many are left, those with failures and a closed circuit; and if too many
// are still left, those with an open circuit whose time for a trial came long ago, without a call since. They may be called
// anyway. So however many targets fail, those that did so within CircuitWait and circuitUnwanted bound the memory. cs.mu
// must be held.
func (cs *circuits) forget(now time.Time) {
	for _, most := range []worth{worthNothing, worthFailures, worthTrials} {
		maps.DeleteFunc(cs.all, func(_ string, c *circuit) bool { return c.worth(now) <= most })
		if len(cs.all) < cs.kept {
			break
		}
	}
	cs.limit, cs.next = 2*len(cs.all), now.Add(circuitUnwanted)
}

// worth is what is lost with a circuit that is forgotten.
type worth int

const (
	worthNothing  worth = iota // the target is well
	worthFailures              // the number of failures in a row
	worthTrials                // that the next calls are single ones
	worthAll                   // calls are under way, or there may be none now
)

func (c *circuit) worth(now time.Time) worth {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.calls > 0 || now.Sub(c.until) < circuitUnwanted: // until is zero while it is closed
		return worthAll
	case !c.opened.IsZero():
		return worthTrials
	case c.failed > 0:
		return worthFailures
	}
	return worthNothing
}

// succeed closes the circuit if it has been open for long enough. c.mu must be held.
func (c *circuit) succeed(now time.Time) {
	c.failed = 0
	if !c.opened.IsZero() && now.Sub(c.opened) >= c.wait {
		c.close()
	}
}

// close closes an open circuit. c.mu must be held.
func (c *circuit) close() {
	c.age++
	c.signal()
	c.failed, c.opened, c.until, c.pacer, c.turns.waiting = 0, time.Time{}, time.Time{}, pacer{}, nil
}

// fail opens the circuit after too many failures. c.mu must be held.
func (c *circuit) fail(now time.Time) {
	if c.failed++; c.failures <= 0 || c.failed < c.failures {
		return
	}
	c.age++
	c.opened, c.until = now, now.Add(c.wait)
}

// signal makes the waiting workers look at the circuit again. c.mu must be held.
func (c *circuit) signal() {
	for _, w := range c.turns.waiting {
		if w.wakeup != nil {
			signal(w.wakeup)
		}
	}
}

// OpenCircuits returns, by name, the failing targets that get no calls from this node now, or single ones as trials.
func (c *Center) OpenCircuits() []string {
	now := time.Now()
	c.circuits.mu.Lock()
	defer c.circuits.mu.Unlock()
	var names []string
	for name, one := range c.circuits.all {
		if one.open(now) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// CloseCircuit closes a circuit of OpenCircuits on this node, as a successful call does: somebody knows that its target is well
// again. Tasks with callbacks of their own that were put off come back at their times, within about CircuitWait if they are
// few. CloseCircuit reports whether the circuit was open.
func (c *Center) CloseCircuit(name string) bool {
	c.circuits.mu.Lock()
	one := c.circuits.all[name]
	c.circuits.mu.Unlock()
	if one == nil {
		return false
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	was := !one.opened.IsZero()
	if was {
		one.close()
	}
	return was
}

// open reports whether the target gets no calls, or is on trial. It is neither if nobody has wanted to call it since
// the time for a trial came.
func (c *circuit) open(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.opened.IsZero() && (c.trials > 0 || now.Before(c.until.Add(2*trialTurn)))
}

// turn returns when a worker may make a call: now, or a later time while the circuit is open. The wakeup is signalled if that
// changes. A caller is a topic and a target.
func (c *circuit) turn(caller string, wakeup chan struct{}, now time.Time) (at time.Time, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened.IsZero() {
		return now, false
	}
	w := c.turns.join(caller, now)
	if w.wakeup = wakeup; now.Before(c.until) { // else it has had its turn
		w.back = c.until
	}
	return c.turnOf(caller, now), true
}

// turnOf returns when a caller may make a call. For a while a trial is for the first of those that come for it: an engine may be
// late, and lease the tasks of all of them at once. Then it is for anybody. c.mu must be held.
func (c *circuit) turnOf(caller string, now time.Time) time.Time {
	at := c.until.Add(time.Millisecond)
	switch {
	case c.opened.IsZero():
		return now
	case c.trials >= maxTrials: // the end of one signals
		return now.Add(max(c.wait, trialLast))
	case !now.Before(at) && len(c.before(caller)) > 0:
		return c.turnsEnd()
	}
	return at
}

// turnsEnd returns until when the next trial waits for the callers ahead. c.mu must be held.
func (c *circuit) turnsEnd() time.Time {
	return c.until.Add(time.Millisecond + min(trialTurn, c.wait/10))
}

// before returns the waiters ahead of a caller that come for the next trial. c.mu must be held.
func (c *circuit) before(caller string) []*waiter {
	return c.turns.before(caller, c.until, c.turnsEnd())
}

// pass ends the turn of a worker without anything to call.
func (c *circuit) pass(caller string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.turns.quit(caller); w != nil && !w.back.Before(c.until) {
		c.signal()
	}
}

// visit is a call under way.
type visit struct {
	circuit *circuit
	caller  string
	trial   bool
	age     int  // of the circuit when the call began
	judged  bool // circuit.mu guards it
}

// enter begins a call, which must end with leave. It returns nil if there may be none now.
func (c *circuit) enter(caller string) *visit {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turnOf(caller, now).After(now) {
		return nil
	}
	if c.calls == 0 {
		c.answered = now
	}
	c.calls++
	v := &visit{circuit: c, caller: caller, trial: !c.opened.IsZero(), age: c.age}
	if v.trial {
		c.turns.serve(caller, c.before(caller), now)
		c.until = now.Add(max(c.wait, trialLast) << min(c.trials, maxTrials))
		c.trials++
	}
	return v
}

// leave ends a call with its result.
func (v *visit) leave(failure error) {
	v.end(failure, true)
}

// judge tells the circuit of a call, also before its end. Only the first result counts.
func (v *visit) judge(failure error) {
	v.end(failure, false)
}

// end takes a result, and counts a call out that is over. A failure from before the circuit opened or closed says
// nothing new, and that of a trial leaves it open.
func (v *visit) end(failure error, over bool) {
	c, now := v.circuit, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if over {
		c.calls--
		if failure == nil {
			c.answered = now
		}
	}
	if v.judged {
		return
	}
	v.judged = true
	none := errors.Is(failure, errNoCall)
	if !none {
		c.turns.judge(v.caller, failure == nil)
	}
	if v.trial {
		c.trials--
		rest := c.wait
		if none {
			rest = 0
		}
		if v.age == c.age && now.Add(rest).Before(c.until) && (!none || c.trials == 0) {
			c.until = now.Add(rest)
		}
		c.signal()
	}
	switch {
	case none:
	case failure == nil:
		c.succeed(now)
	case c.opened.IsZero() && v.age == c.age:
		c.fail(now)
	}
}

// hangs reports whether calls are under way and none has succeeded for a while.
func (c *circuit) hangs(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls > 0 && now.Sub(c.answered) > circuitHangs
}

// putOff returns how long to put a task off that can't be called now. One task of a caller comes back for the next
// trial, and the others after about CircuitWait. If there are many, backRate of them come back in a second, so that
// their number costs nothing. But none waits for longer than about as long again as the circuit has been open.
func (c *circuit) putOff(caller string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest := c.wait
	if !c.opened.IsZero() {
		longest = max(longest, now.Sub(c.opened))
		w, at, before := c.turns.join(caller, now), c.turnOf(caller, now), c.before(caller)
		if at.After(now) && !w.back.After(now) && w.isNear(before) {
			apart := max(c.turnsEnd().Sub(at), 0) / waitersNear // those before may have no task by then
			w.back = at.Add(apart * time.Duration(min(len(before), waitersNear)))
			return w.back.Sub(now)
		}
	}
	return c.pacer.after(now, c.wait, longest)
}
