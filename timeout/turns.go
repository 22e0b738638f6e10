package timeout

import (
	"strings"
	"time"
)

// turns says which caller of an open circuit has the next trial. Every other trial is for callers that were well before:
// one host has a URL that answers, and others that fail. The topics have the others in turn, and in a topic the callers:
// first come, first served, and who had a trial goes to the end. So ever new URLs that fail cost each other their trials, and
// neither another topic, nor a URL that came before them, nor one that works.
type turns struct {
	topics, callers queue // since the circuit opened
	well            map[string]struct{}
	forWell         bool // the next trial is for those that were well
}

const (
	// queueMost is how many topics, and callers, of a circuit are remembered with their turns. The others come last.
	queueMost = 1000

	// queueHead is how many of them are told apart, and for about how many a task comes back for the next trial.
	queueHead = 16

	// wellMost is how many callers are remembered as well.
	wellMost = 16
)

// queue is since when each one waits for its turn.
type queue map[string]time.Time

// join notes one that waits.
func (q queue) join(name string, now time.Time) {
	if _, waits := q[name]; !waits && len(q) < queueMost {
		q[name] = now
	}
}

// pass notes one whose turn is over.
func (q queue) pass(name string, now time.Time) {
	delete(q, name)
	if len(q) < queueMost-1 { // another one comes from behind the queue
		q[name] = now
	}
}

// place returns how many with that prefix wait for longer, up to queueHead.
func (q queue) place(name, prefix string) (place int) {
	since, waits := q[name]
	if !waits {
		return queueHead
	}
	for other, before := range q {
		if before.Before(since) && strings.HasPrefix(other, prefix) {
			if place++; place == queueHead {
				break
			}
		}
	}
	return place
}

// topicOf returns the topic of a caller, see worker.caller.
func topicOf(caller string) string {
	topic, _, _ := strings.Cut(caller, " ")
	return topic
}

// open begins with empty queues.
func (t *turns) open() { t.topics, t.callers = make(queue), make(queue) }

// close forgets who waits, but not who was well.
func (t *turns) close() { t.topics, t.callers = nil, nil }

// join notes a caller that waits.
func (t *turns) join(caller string, now time.Time) {
	t.topics.join(topicOf(caller), now)
	t.callers.join(caller, now)
}

// serve notes a trial. Its caller is well again when it succeeds.
func (t *turns) serve(caller string, now time.Time) {
	_, well := t.well[caller]
	delete(t.well, caller)
	t.forWell = !well
	t.pass(caller, now)
}

// pass notes a caller whose turn is over.
func (t *turns) pass(caller string, now time.Time) {
	t.topics.pass(topicOf(caller), now)
	t.callers.pass(caller, now)
}

// judge notes a result.
func (t *turns) judge(caller string, well bool) {
	if !well {
		delete(t.well, caller)
		return
	}
	if _, known := t.well[caller]; known {
		return
	}
	if t.well == nil {
		t.well = make(map[string]struct{})
	}
	for other := range t.well {
		if len(t.well) < wellMost {
			break
		}
		delete(t.well, other)
	}
	t.well[caller] = struct{}{}
}

// places returns how many topics, and how many callers of the topic, are before a caller, up to queueHead.
func (t *turns) places(caller string) (topics, callers int) {
	topic := topicOf(caller)
	return t.topics.place(topic, ""), t.callers.place(caller, topic+" ")
}

// isNext reports whether a caller may have the next trial, so a task of it should be there. others are those whose tasks
// come back for it.
func (t *turns) isNext(caller string, others map[string]time.Time) bool {
	same, topic := 0, topicOf(caller)
	for other := range others {
		if topicOf(other) == topic {
			same++
		}
	}
	_, well := t.well[caller]
	topics, callers := t.places(caller)
	return well || topics < queueHead && (callers < queueHead/2 || same < max(1, queueHead/len(t.topics)))
}

// rank returns how late the turn of a caller is, from 0 for the first one to 1 for those not remembered.
func (t *turns) rank(caller string) float64 {
	const head = queueHead
	topics, callers := t.places(caller)
	rank := float64(topics*(head+1)+callers) / (head * (head + 2))
	if _, well := t.well[caller]; well != (t.forWell && len(t.well) > 0) {
		rank++
	}
	return rank / 2
}
