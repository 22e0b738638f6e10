package redis

import (
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Patience is how long Expire waits for a server of a Cluster.
const Patience = patience

// Linger is how long late leases wait for a call of Expire.
const Linger = linger

// SetPatience changes it for an engine that is not in use yet.
func (e *Engine) SetPatience(patience time.Duration) { e.patience = patience }

// SetLinger changes how long late leases wait, for an engine that is not in use yet.
func (e *Engine) SetLinger(linger time.Duration) { e.linger = linger }

// Late returns how many leases of a topic wait for the next call of Expire, and how many questions are left with
// servers.
func (e *Engine) Late(topic string) (leases, questions int) {
	e.late.mu.Lock()
	defer e.late.mu.Unlock()
	for _, lanes := range e.late.busy {
		for _, n := range lanes {
			questions += n
		}
	}
	for _, a := range e.late.arrivals[topic] {
		leases += len(a.leased)
	}
	return leases, questions
}

// OnStep has a function called before each step of longer work. Its error ends the work.
func (e *Engine) OnStep(step func(name string) error) { e.step = step }

// Clock is the servers' time, as far as the engine knows it.
func (e *Engine) Clock() time.Time { return e.late.now() }

// Left returns how many entries there are for what Expire has left with servers.
func (e *Engine) Left() int {
	e.late.mu.Lock()
	defer e.late.mu.Unlock()
	return len(e.late.busy) + len(e.late.arrivals) + len(e.late.news)
}

// InVain returns how many servers are to be waited for once, of all topics.
func (e *Engine) InVain() int {
	e.late.mu.Lock()
	defer e.late.mu.Unlock()
	return len(e.late.vain)
}

// Prefix is the engine's Config.Prefix.
func (e *Engine) Prefix() string { return e.cfg.Prefix }

// CopyTags are the hash tags of the copies of the records.
var CopyTags = copyTags

// SlotKey returns a key of a slot of a known topic.
func (e *Engine) SlotKey(topic string, slot int) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.layouts[topic].places[slot].keys[0].(string)
}

// Knows reports whether the engine remembers a topic.
func (e *Engine) Knows(topic string) bool { return e.known(topic) != nil }

// Suppose has the engine suppose that a slot of a known topic has something due.
func (e *Engine) Suppose(topic string, slot int) { e.known(topic).hints.set(slot, 1) }

// SetCloseTime changes how long Close waits for late answers, for an engine that is not in use yet.
func (e *Engine) SetCloseTime(closeTime time.Duration) { e.closeTime = closeTime }

// Adapt returns the usual time of a server after an answer.
var Adapt = adapt

// Wait returns how long to wait for servers with these usual times, while leases run.
func Wait(slowest, fastest, vain, patience, lease time.Duration) time.Duration {
	return usual{slowest, fastest, vain}.wait(patience, lease)
}

// VainWaits returns how long questions of some topics wait for a server, after it has leased a task of orders in vain.
// One of them is about outcomes of orders alone.
func VainWaits(topics ...string) (waits []time.Duration) {
	const lane = 1
	t := newLate()
	t.took(lane, patience, patience)
	t.remove(lane, &arrival{ask: engine.Ask{Topic: "orders"}, leased: make([]engine.Leased, 1)})
	for _, topic := range topics {
		topic, outcomes := strings.CutPrefix(topic, "outcomes of ")
		c := &invocation{room: 1}
		if outcomes {
			c.room = 0
		}
		waits = append(waits, t.usual(topic, []*flight{{lane: lane, calls: []*invocation{c}}}).vain)
	}
	return waits
}

// UsualOfOne returns what a question to the first of two servers knows of their usual times.
func UsualOfOne(first, second time.Duration) (slowest, fastest time.Duration) {
	t := newLate()
	t.usually[1], t.usually[2] = first, second
	u := t.usual("orders", []*flight{{lane: 1}})
	return u.slowest, u.fastest
}

// Owes reports whether the engine owes a topic outcomes.
func (e *Engine) Owes(topic string) bool {
	e.owed.mu.Lock()
	defer e.owed.mu.Unlock()
	return len(e.owed.topics[topic]) > 0
}
