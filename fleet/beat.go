package fleet

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// beats is the node's own lease, if it has one. The node has a lease in each slot, because each slot
// may be on another server.
type beats struct {
	places  []place       // by slot; empty without NodeLease
	gone    []int64       // by slot: good of the lease last given up; only for the watch loop
	failing bool          // the last beat failed; only for the beat loop
	retry   time.Duration // pause after a failure

	mu    sync.Mutex // guards terms, and changes of places with them
	terms []int64    // the slots' terms for the node, by slot
}

// place describes the node's lease in a slot. It protects a session only if the session was extended
// under the slot's present term. After an earlier term, the slot may have taken the node for dead
// meanwhile.
type place struct {
	good  atomic.Int64  // when the node asked for the present lease, by its own clock
	known atomic.Uint32 // number of the present term, counted from 1 by the node
}

// begin sets up beats for a node with a lease. Without one, places is empty.
func (b *beats) begin(slots int, every time.Duration) {
	b.places, b.terms = make([]place, slots), make([]int64, slots)
	b.gone = slices.Repeat([]int64{-1}, slots)
	b.retry = max(every/20, time.Millisecond)
}

// beatLoop extends the node's lease. Each beat comes a little early, by a random time. So nodes
// begun together drift apart.
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

// beatOnce extends the node's lease in all slots. It reports whether all have answered.
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

// learn notes a lease given to the node by a slot, under a term. The node asked for it at sent. learn
// reports whether the term is new. With latest, no newer answer was heard before. Then even a lower
// term is new: terms go down only if the server has lost its data and its clock was set back as well.
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

// learnTogether calls learn for the answers to registrations. It also notes the node's number of the
// term of each.
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

// known returns the node's numbers of the present terms, by slot.
func (n *Node) known() []uint32 {
	terms := make([]uint32, n.store.slots())
	for i := range n.beats.places {
		terms[i] = n.beats.places[i].known.Load()
	}
	return terms
}

// alive reports whether the node's lease in a slot protects a session extended under known, by the
// node's own clock.
func (n *Node) alive(slot uint16, known uint32, now time.Duration) bool {
	if len(n.beats.places) == 0 {
		return true
	}
	p := &n.beats.places[slot]
	good := time.Duration(p.good.Load()) // read first: with a new good comes its new number, see learn
	return now-good < n.cfg.NodeLease && p.known.Load() == known
}

// recheck makes the renewers extend the sessions of some slots at once. The slots may refuse some.
func (n *Node) recheck(slots []bool) {
	if slices.Contains(slots, true) {
		n.layout.ask()
	}
	n.renewer.push(n.in(slots))
}

// isForsaken reports whether the node's lease in a slot is over, or will be within ahead.
func (n *Node) isForsaken(slot uint16, ahead time.Duration) bool {
	return time.Duration(n.beats.places[slot].good.Load()) <= n.elapsed()-n.cfg.NodeLease+ahead
}

// forsaken returns the sessions in slots without a lease of the node: it is over, or will be within
// ahead. forsaken returns them once per lease.
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
