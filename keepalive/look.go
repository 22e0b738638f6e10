package keepalive

import (
	"fmt"
	"time"
)

// A connection has one entry in the wheel, and all that a policy may want of it is
// decided when the wheel comes to it; a touch only moves the deadline. It happens
// in two steps:
//
//	look    on a worker of the wheel's: is there anything to be decided? Most
//	        often there is not, since the deadline that a touch gives is a short one
//	        (policy.hop), or some limit that touches don't move has not come yet.
//	Expire  where the adapter decides, on gnet in the event loop: asks the socket
//	        and the user, and closes the connection or gives it more time.
//
// The deadline of a connection that is not touched goes from one stage to the next,
// see stage; it always remembers the last touch, so each stage is measured from that,
// or from the moment at which the stage before was over.

// due runs on a worker of the wheel's.
func (k *Keeper) due(m *member, _ struct{}) {
	g := guardAt(m)
	if k.look(g) {
		return
	}
	k.hand(g)
}

// evict is due for a connection that is to make room.
func (k *Keeper) evict(m *member, _ struct{}) {
	g := guardAt(m)
	d := k.detailsOf(g)
	d.mu.Lock()
	d.evicts = g.member.Stamp()
	d.mu.Unlock()
	k.hand(g)
}

// hand has the adapter of a connection call Expire.
func (k *Keeper) hand(g *Guard) {
	if d, ok := find(g.conn).(Due); ok && d.Guarded() == g {
		d.Due(k, g.conn)
		return
	}
	k.Lose(g)
}

// Lose ends the guarding of a connection that has lost its guard: what Touch looks for
// is not there any more, so nobody can have touched it, and it must not be closed for
// that. Adapters call it where they find out.
func (k *Keeper) Lose(g *Guard) {
	if k.Release(g) {
		k.forget(g, ErrNotGuarded)
		k.log.Error("keepalive: a connection has lost its guard; it stays open, unguarded",
			"conn", fmt.Sprintf("%T", g.conn))
	}
}

// limit returns the tick by which a connection is looked at however often it is
// touched: at once where it does not know of the present policy. It is called by the
// wheel, under its lock.
func (k *Keeper) limit(m *member, _ struct{}) uint64 {
	g := guardAt(m)
	p, d := k.policy.Load(), g.details.Load()
	switch {
	case g.member.Timeout() != p.hop(g, k.timeoutOf(p, d)):
		return 0
	case d == nil && p.detailed, d != nil && d.generation.Load() != p.generation:
		return 0
	case d != nil:
		return d.lookBy.Load()
	}
	return never
}

// look reports whether there is nothing to be decided about a connection that the
// wheel has come to, and in that case has it come again when there may be.
func (k *Keeper) look(g *Guard) bool {
	p := k.policy.Load()
	k.measurePressure(p)
	d := k.prepared(p, g)
	if d != nil && (d.lookBy.Load() <= k.pool.Now() || d.hasTurn()) {
		return false
	}
	return k.await(p, g, d)
}

// prepared returns the details of a connection, or nil where it has and needs none,
// after it has been made to fit the policy.
func (k *Keeper) prepared(p *policy, g *Guard) *details {
	d := g.details.Load()
	if d == nil && p.detailed {
		d = k.detailsOf(g)
	}
	if hop := p.hop(g, k.timeoutOf(p, d)); hop != g.member.Timeout() {
		g.isFirst(p.Tick) // before the deadline can move
		g.member.Retime(hop)
	}
	if d != nil && d.generation.Load() != p.generation {
		d.prepare(k, p, g)
	}
	return d
}

// timeoutOf returns how long a connection may be silent when there is no pressure.
func (k *Keeper) timeoutOf(p *policy, d *details) time.Duration {
	if d != nil {
		if own := d.timeout.Load(); own > 0 {
			return time.Duration(own)
		}
	}
	return p.Timeout
}

// patience returns how long after its last touch a connection that has come to no
// further stage is to be decided about, and for what reason.
func (k *Keeper) patience(p *policy, g *Guard, d *details) (time.Duration, Reason) {
	if p.FirstMessage > 0 && g.isFirst(p.Tick) {
		return p.FirstMessage, ReasonFirstMessage
	}
	full := k.timeoutOf(p, d)
	timeout := full
	if p.PressureTimeout > 0 {
		timeout = p.reduced(full, k.pressure.now())
	}
	if p.Probe != nil {
		if after := p.probeAfter(g, full); after < timeout {
			return after, ReasonNoAnswer
		}
	}
	return timeout, ReasonIdle
}

// await reports whether a connection is not to be decided about yet, and has the
// wheel come to it again when it may be.
func (k *Keeper) await(p *policy, g *Guard, d *details) bool {
	switch s, _, _ := d.at(g.member.Stamp()); {
	case s == queued && d.hasTurn():
		return false
	case s != listening:
		_, ok := g.member.Resume()
		return ok
	}
	patience, reason := k.patience(p, g, d)
	switch {
	case reason == ReasonFirstMessage:
		_, ok := g.member.Resume()
		return ok
	case p.advisor != nil:
		_, ok := k.awaitEdges(p, g, d, patience)
		return ok
	}
	_, ok := g.member.Await(patience)
	return ok
}

// Expire decides about a connection that the wheel has come to. It reports whether
// it is to be closed: the adapter does that at once, for the guard's Reason, and then
// calls Closed. False means that it lives: somebody has touched or closed it
// meanwhile, its socket has heard of the peer, or a policy wants it to. ask asks
// the socket, see Ask.
//
// It must not be called for the same guard by two goroutines at the same time.
func (k *Keeper) Expire(g *Guard, ask func() Heard) bool {
	p := k.policy.Load()
	d := k.prepared(p, g)
	if d != nil {
		if reason := k.overdue(p, g, d, ask); reason != 0 {
			return k.giveUp(g, reason, g.member.Remove)
		}
		if evicted, ok := k.evicted(p, g, d, ask); ok {
			return evicted
		}
	}
	if k.await(p, g, d) || !g.member.IsDue() {
		return false
	}
	reason := k.silent(p, g, d, ask)
	if reason == 0 {
		return false
	}
	return k.giveUp(g, reason, g.member.Expire)
}

// giveUp ends the guarding of a connection that is to be closed, in the way that is
// given. It reports false where somebody else has ended it, or saved the connection.
func (k *Keeper) giveUp(g *Guard, why Reason, end func() (struct{}, bool)) bool {
	k.leaving.Add(1) // first, or there would be a moment in which nobody knows of it
	if _, ok := end(); !ok {
		k.leaving.Add(-1)
		return false
	}
	g.setReason(why)
	return true
}

// silent decides about a connection that has been silent for as long as it was
// waited for. It returns why it is to be closed, or 0 where it is not, yet.
func (k *Keeper) silent(p *policy, g *Guard, d *details, ask func() Heard) Reason {
	if d != nil && d.holds.Load() > 0 {
		k.postpone(g, held, 0, 0, g.member.Timeout())
		return 0
	}
	s, count, why := d.at(g.member.Stamp())
	heard := ask()
	defer func() { g.details.Load().seeBytes(heard.bytes) }()
	if k.spare(g, heard) {
		return 0
	}
	if p.advisor != nil {
		k.reachEdges(p, g, d)
	}
	next := 0 // the number of the probe that is to be sent now
	switch s {
	case probing:
		if k.answerMayCome(p, g, d, count) {
			return 0
		}
		if int(count) < p.ProbeCount {
			next = int(count) + 1
		}
	case ignored:
		k.ignore(p, g, why)
		return 0
	case queued:
		if !d.hasTurn() {
			k.enqueue(g, why) // once more
			return 0
		}
		if _, ok := g.member.Await(k.queuedFor(p, g, d, why)); ok {
			return 0 // the timeout has become longer meanwhile
		}
	case extended:
	default:
		if _, why = k.patience(p, g, d); why == ReasonNoAnswer {
			next = 1
		}
	}
	switch {
	case next > 0:
		if k.probe(p, g, next) {
			return 0
		}
		why = ReasonNoAnswer
	case s == queued, s == probing && count == lastProbe: // OnIdle has had its say
	case !k.condemns(p, g, why):
		return 0
	}
	if p.OnIdle != nil && p.Activity == ActivityKernel && k.spare(g, ask()) {
		return 0 // what came meanwhile has touched nothing
	}
	if p.DryRun {
		k.wouldClose(why)
		k.ignore(p, g, why)
		return 0
	}
	if s != queued && k.queues(p, g, why) {
		return 0
	}
	return why
}

// queuedFor returns how long a connection must have been silent to be closed that has
// waited for its turn.
func (k *Keeper) queuedFor(p *policy, g *Guard, d *details, why Reason) time.Duration {
	if why != ReasonIdle {
		return 0
	}
	patience, _ := k.patience(p, g, d)
	return patience
}

// condemns asks OnIdle, and reports whether the connection is to be closed.
func (k *Keeper) condemns(p *policy, g *Guard, why Reason) bool {
	silence := g.member.Stamp()
	verdict := k.verdict(p, g, why)
	switch {
	case g.member.Stamp() != silence:
		return false // it was about a silence that has ended
	case verdict == Ignore:
		k.ignore(p, g, why)
	case verdict == Probe:
		return !k.probe(p, g, lastProbe)
	case verdict > 0:
		k.postpone(g, extended, 0, why, time.Duration(verdict))
	default:
		return true
	}
	return false
}

// verdict asks OnIdle. Where that can't be done, it is Close.
func (k *Keeper) verdict(p *policy, g *Guard, why Reason) Verdict {
	verdict := Close
	if p.OnIdle != nil {
		k.call("OnIdle", func() { verdict = p.OnIdle(g.conn, why) })
	}
	if verdict < Ignore || verdict == Probe && p.Probe == nil {
		return Close
	}
	return verdict
}

// spare gives a connection more time where its peer was heard by the socket, unless
// it has had too much of that.
func (k *Keeper) spare(g *Guard, heard Heard) bool {
	if heard.More <= 0 {
		return false
	}
	rounds := uint8(0)
	if heard.Unread && !heard.taken {
		if s, count, _ := g.details.Load().at(g.member.Stamp()); s == unread {
			rounds = count
		}
		if rounds++; rounds > maxRounds {
			return false
		}
	}
	spared := false
	if heard.Unread {
		spared = k.postpone(g, unread, rounds, 0, heard.More)
	} else if spared = g.member.Renew(heard.ago); spared {
		g.notFirst()
	}
	if spared {
		k.spared.Add(1)
	}
	return true
}

// maxRounds is how often in a row a connection is given more time because bytes
// wait in its socket that this program has not read. A program that is slow
// reads them meanwhile. One that hangs must not keep its dead connections.
const maxRounds = 3

// evicted decides about a connection that is to make room, if it is (ok). It reports
// whether it is to be closed.
func (k *Keeper) evicted(p *policy, g *Guard, d *details, ask func() Heard) (closes, ok bool) {
	if !d.isEvicted(g.member.Stamp()) {
		return false, false
	}
	busy := !g.member.IsDue() || k.spare(g, ask())
	if !busy && d.holds.Load() > 0 {
		g.member.Renew(0) // or it would be the idlest again
		busy = true
	}
	d.mu.Lock()
	d.evicts = 0
	d.mu.Unlock()
	if busy {
		return false, false
	}
	if p.DryRun {
		k.wouldClose(ReasonEvicted)
		return false, false
	}
	return k.giveUp(g, ReasonEvicted, g.member.Expire), true
}
