package fleet

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// beats is the node's own lease, where it has one: in each slot for itself, since each may be on
// another server.
type beats struct {
	places  []place       // by slot; none without NodeLease
	gone    []int64       // the watch loop's, by slot: the lease with which it has taken sessions away
	failing bool          // the beat loop's
	retry   time.Duration // after a failure

	mu    sync.Mutex // guards terms, and that places change with them
	terms []int64    // under which slots know the node, by slot
}

// place is what the node knows of its lease in a slot. A session is as good as its slot's lease if
// it was extended under the term that the slot has now: under any other, the slot may have taken the
// node for dead meanwhile.
type place struct {
	good  atomic.Int64  // when the node asked for what gave it the lease, by its own clock
	known atomic.Uint32 // how many terms there were, from 1 on
}

// begin is for nodes that have leases. Of others places is empty.
func (b *beats) begin(slots int, every time.Duration) {
	b.places, b.terms = make([]place, slots), make([]int64, slots)
	b.gone = slices.Repeat([]int64{-1}, slots)
	b.retry = max(every/20, time.Millisecond)
}

// beatLoop extends the node's lease: a little earlier each time, so that nodes which began together
// don't stay together.
func (n *Node) beatLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := n.cfg.beat() - time.Duration(n.random()*n.cfg.Jitter*float64(n.cfg.beat()))
		if !n.beatOnce() {
			next = min(next, n.beats.retry)
		}
		timer.Reset(next)
	}
}

// beatOnce reports whether all slots have answered.
func (n *Node) beatOnce() bool {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	defer cancel()
	sent := n.elapsed()
	terms, err := n.store.beat(ctx)
	n.stats.failed(err)
	n.stats.beats.Add(1)
	changed := make([]bool, len(terms))
	for slot, term := range terms {
		if term != 0 {
			changed[slot] = n.learn(slot, term, sent, true)
		}
	}
	n.recheck(changed)
	if failing := err != nil; failing != n.beats.failing {
		if n.beats.failing = failing; failing {
			n.cfg.Logger.Warn("fleet: the node's lease can't be extended", "node", n.cfg.Node, "error", err)
		} else {
			n.cfg.Logger.Info("fleet: the node's lease is extended again", "node", n.cfg.Node)
		}
	}
	return err == nil
}

// learn notes that a slot has given the node its lease, which it asked for at sent, under a term. It
// reports whether that is a new one. latest says that nothing newer was heard before: terms only go
// up, but where the server has lost its data and its clock was set back as well.
func (n *Node) learn(slot int, term int64, sent time.Duration, latest bool) (changed bool) {
	b, p := &n.beats, &n.beats.places[slot]
	b.mu.Lock()
	defer b.mu.Unlock()
	switch known := b.terms[slot]; {
	case term == known:
		p.good.Store(max(p.good.Load(), int64(sent)))
	case term > known, latest:
		b.terms[slot] = term
		p.known.Add(1) // before good, see alive
		p.good.Store(int64(sent))
		return true
	}
	return false
}

// learnTogether does so with the answers to registrations, and notes which terms these were made
// under.
func (n *Node) learnTogether(asks []registration, answers []registered, sent time.Duration) {
	places := n.beats.places
	if len(places) == 0 {
		return
	}
	changed := make([]bool, len(places))
	for i := range answers {
		a := &answers[i]
		if a.term == 0 {
			continue
		}
		slot := n.slotOf(asks[i].id)
		if n.learn(int(slot), a.term, sent, false) {
			changed[slot] = true
		}
		n.beats.mu.Lock()
		if n.beats.terms[slot] == a.term {
			a.known = places[slot].known.Load()
		}
		n.beats.mu.Unlock()
	}
	n.recheck(changed)
}

// known returns which term is known of each slot.
func (n *Node) known() []uint32 {
	terms := make([]uint32, n.store.slots())
	for i := range n.beats.places {
		terms[i] = n.beats.places[i].known.Load()
	}
	return terms
}

// alive reports whether the lease of a slot is not over by the node's own clock, for a session that
// was extended under known.
func (n *Node) alive(slot uint16, known uint32, now time.Duration) bool {
	if len(n.beats.places) == 0 {
		return true
	}
	p := &n.beats.places[slot]
	good := time.Duration(p.good.Load()) // that of a new term is seen with it
	return now-good < n.cfg.NodeLease && p.known.Load() == known
}

// recheck has the sessions of some slots be extended at once, or refused.
func (n *Node) recheck(slots []bool) {
	if slices.Contains(slots, true) {
		n.layout.ask()
	}
	n.renewer.push(n.in(slots))
}

// forsaken returns the sessions of slots in which the node's lease will be over in less than ahead.
func (n *Node) forsaken(ahead time.Duration) []*Session {
	b := &n.beats
	limit := n.elapsed() - n.cfg.NodeLease + ahead
	over := make([]bool, len(b.places))
	for slot := range b.places {
		good := b.places[slot].good.Load()
		if time.Duration(good) <= limit && good != b.gone[slot] {
			b.gone[slot], over[slot] = good, true
		}
	}
	return n.in(over)
}
