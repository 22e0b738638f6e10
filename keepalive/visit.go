package keepalive

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// due is called by a worker of the wheel when a connection needs a decision.
// The adapter calls Decide, now or later: with gnet in the event loop, behind the reads that
// wait there.
func (g *Guard) due() {
	if Of(g.conn) != g { // a touch would not find the guard any more
		g.lose()
		return
	}
	g.adapter.Due(g.Binding())
}

// evict is due for a connection chosen to make room.
func (g *Guard) evict() {
	g.mu.Lock()
	g.makeRare().state.Evicted = true
	g.mu.Unlock()
	g.due()
}

// decideSoon changes the state of the connection, and makes the next decision come at once.
func (g *Guard) decideSoon(change func(s *rules.State)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.makeRare().state)
	g.decideNow()
}

// decideNow makes the next decision come at once. mu must be held.
func (g *Guard) decideNow() {
	g.makeRare().limit.Store(0) // a visit may be just about to wait
	g.timer.HandOver()
}

// visit is one decision about a connection. A decision has no effect until apply carries it
// out. The next decision follows, until the connection waits again or is closed. The first one is the last, too, unless
// the user or the peer has to answer, or the pace does not allow a close.
type visit struct {
	*Guard
	policy *policy
	seen   rules.Evidence // with what came of the outcomes so far
	looked bool           // the socket was, and nobody was called since then
	now    rules.Time     // just before that
	report report         // what it said
	closes Reason         // of the last check that wants the connection closed
	chosen bool           // it was to make room
	done   bool
}

// run decides and applies, until done. If a function of the user has called runtime.Goexit,
// the adapter goes on after it.
func (v *visit) run() {
	defer func() {
		if !v.done {
			// The rest of the visit is a copy, so a visit that ends here leaves no garbage.
			rest := *v
			go func() { _ = rest.adapter.Do(context.Background(), rest.Binding(), rest.run) }() // an error says that it is closed
			return
		}
		if v.chosen {
			v.keeper.shares.stays(v.Guard, v.policy)
		}
		if v.leave() {
			go v.due()
		}
	}()
	for !v.done {
		v.apply(v.decide())
	}
}

// enter reports whether nobody else is deciding about the connection. Otherwise it leaves a note to decide once more.
func (g *Guard) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.visited {
		g.again = true
		return false
	}
	g.visited = true
	return true
}

// leave ends a visit, and reports whether it has to be repeated.
func (g *Guard) leave() (again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	again = g.again
	g.visited, g.again = false, false
	return again
}

// decide asks the socket, unless its answer still holds, and then the rules.
func (v *visit) decide() rules.Outcome {
	g, k := v.Guard, v.keeper
	if !v.looked {
		v.looked, v.now = true, k.now()
		v.seen.Socket, v.report = g.look()
	}
	v.policy = k.policy.Load()
	pressure := k.pressure(v.policy, time.Duration(v.now)) // calls the user, so not with mu held
	g.mu.Lock()
	defer g.mu.Unlock()
	p := v.policy.rulesOf(g)
	e := &v.seen
	saw := g.timer.Look()
	if saw == (wheel.Sight{}) { // it has been closed meanwhile
		return rules.Outcome{Do: rules.Wait}
	}
	switch {
	case e.Begun == 0: // the first look of this visit, which may change the deadline
		e.Begun, e.DueAt = v.now, rules.Time(saw.DueAt)
		if limit := rules.Time(g.limit()); limit > 0 {
			e.DueAt = min(e.DueAt, limit)
		}
	case !saw.Quiet: // an answer of the user, or of the peer, was for the silence before
		*e = e.Lasting()
	}
	e.Touched, e.Slack, e.Quiet, e.Due = rules.Time(saw.Touched), saw.Touched-saw.From, saw.Quiet, saw.IsDue
	e.Life = g.life()
	e.Draw, e.Born, e.Pressure = g.draw(), g.born, pressure
	if g.flags.Load()&flagCounts != 0 {
		e.Beats = g.beats.Load()
		e.Lost = k.lost() // after the beats: a stall comes before the bytes that waited for its end
	}
	e.Exchange = g.exchangeNow()
	e.Unread = e.Unread || g.flags.Load()&flagUnread != 0
	if e.Socket.Unread > 0 && e.Exchange != rules.Never {
		g.came()
	}
	e.Arriving = g.isArriving()
	e.CheckAt, e.Stall = g.checksNow(v.policy, v.now), g.stall()
	e.Changed = e.Changed || g.setFlag(flagChanged, false)

	s := g.state()
	if g.generation.Load() != v.policy.generation {
		s = rules.Adapt(p, s, e, v.now)
		g.setFlag(flagAdvises, v.policy.Advise)
		g.timer.SetDelay(p.Hop(s, e.Draw)) // nothing else changes it but Guard.change
		g.generation.Store(v.policy.generation)
	}
	v.chosen = v.chosen || s.Evicted
	s, out := rules.Decide(p, s, e, v.now)
	g.setFlag(flagUnread, e.Socket.Unread > 0)
	e.Stall = out.Stall
	g.setStall(out.Stall)
	if out.Do != rules.Close || g.rare.Load() != nil {
		g.setState(s, rules.Limit(p, s, e))
	}
	e.Checked = 0 // it was for this decision
	return out
}

// apply carries an outcome out. If the peer was heard since decide looked, the outcome has no
// effect, whether the timer is due again or not: then this visit or another one decides anew.
func (v *visit) apply(out rules.Outcome) {
	v.count(out)
	switch out.Do {
	case rules.Wait:
		v.timer.RearmSeen(time.Duration(out.Until))
	case rules.Heard:
		if v.timer.TouchAt(time.Duration(out.Until)) {
			v.endsSilence(out.Until.Sub(v.seen.Touched), true)
		}
	case rules.Probe:
		v.probe(out.Why)
		return
	case rules.Ask:
		v.askUser(out.Why)
		return
	case rules.Tell:
		v.tell(Reason(out.Why))
		return
	case rules.Inspect:
		v.inspect()
		return
	case rules.Close:
		if out.Paced && !v.mayClose() {
			return
		}
		v.end(out)
	}
	v.done = true
}

// mayClose asks the pace for a close. The wheel comes to try again, but a wheel of long ticks comes too seldom.
func (v *visit) mayClose() (allowed bool) {
	now := v.keeper.now()
	allowed, v.seen.Retry = v.keeper.pace.reserve(now, v.policy)
	if !allowed && v.policy.Tick > time.Second {
		time.AfterFunc(v.seen.Retry.Sub(now), v.tryAgain)
	}
	return allowed
}

// call calls the user. The socket is asked anew then: bytes may have come meanwhile without a touch.
func (v *visit) call(name string, f func()) {
	v.looked = false
	v.keeper.call(name, f)
}

// tell tells the program that its connection is to end after a grace.
func (v *visit) tell(why Reason) {
	v.mu.Lock()
	announce := v.announcement(why)
	v.mu.Unlock()
	announce()
	if onMax := v.policy.Age.OnMax; onMax != nil {
		v.call("Age.OnMax", func() { onMax(v.conn) })
	}
}

// count counts what a decision says besides its outcome.
func (v *visit) count(out rules.Outcome) {
	k := v.keeper
	if out.Spared {
		k.counts.spared.Add(1)
	}
	if out.Slow {
		k.warnSlow()
	}
	for why, would := range out.Would {
		if would {
			reason := Reason(why)
			if why == int(rules.Check) {
				reason = v.closes
			}
			k.counts.dry[reason].Add(1)
			k.log.Debug("keepalive: would close a connection", "reason", reason.String())
		}
	}
}
