package fleet

import (
	"context"
	"sync"
	"time"
)

const (
	// tellBatch is about the largest number of ends taken and not yet told.
	tellBatch = 512

	// delivery is the time for a node to tell an end. Until then no other node takes the end.
	// tellTimeout is the longest time of one call of OnOffline.
	delivery    = time.Minute
	tellTimeout = 30 * time.Second

	// freshness is the largest age of a look at an end. If the look is older, the node looks
	// again before it tells the end. lookBatch is the largest number of ends in such a look.
	// One by one, a busy server would let the node tell only few.
	freshness = 50 * time.Millisecond
	lookBatch = 64

	// patience limits the time of a sweep, unless Config.Timeout is longer.
	patience = 5 * time.Second

	// firstRetry and longestRetry are the shortest and longest pause before an end is told again.
	firstRetry   = time.Second
	longestRetry = time.Minute
)

// teller keeps this node's ends of sessions to tell.
type teller struct {
	mu       sync.Mutex
	waiting  []taken
	running  int // telling goroutines, at most Config.Calls
	busy     int // ends being told or looked at
	outcomes []told
	changed  chan struct{} // has an element when half of tellBatch is left, or no end waits
	calls    sync.WaitGroup
	closed   bool // the node tells no more
	failing  bool // the last sweep failed; only for the tell loop

	// pause is the time between two sweeps, only for the tell loop. Another node may have named a
	// shorter interval than this node's: then Config.Sweep alone could be a gap.
	pause time.Duration
}

type taken struct {
	event
	at     time.Duration // when the node asked for the end
	looked time.Duration // start of the sweep, or end of the last look after it
}

// tellLoop ends sessions when their lease is over, and tells ends.
func (n *Node) tellLoop(ctx context.Context) {
	t := &n.teller
	t.pause = n.cfg.Sweep
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if n.sweepOnce(ctx, t.room()) {
			continue // there may be more
		}
		timer.Reset(t.pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-t.changed: // time to settle the outcomes, and to take more ends
		}
	}
	t.mu.Lock()
	t.closed = true
	t.giveBack()
	t.mu.Unlock()
	t.calls.Wait()
	n.sweepOnce(ctx, settleOnly)
}

// giveBack gives the waiting ends to other nodes at once, if this node tells no more. The caller
// holds t.mu.
func (t *teller) giveBack() {
	if !t.closed {
		return
	}
	for _, end := range t.waiting {
		t.outcomes = append(t.outcomes, told{event: end.event})
	}
	t.waiting = nil
}

// room returns the number of ends the node may still take.
func (t *teller) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := tellBatch - len(t.waiting) - t.busy; room >= tellBatch/2 {
		return room
	}
	return 0 // small batches are expensive
}

// sweepOnce settles outcomes, and takes ends to tell. It reports whether there may be more of them.
func (n *Node) sweepOnce(ctx context.Context, room int) bool {
	if n.layout.wrong() != nil {
		return false // the sessions may be in other slots
	}
	t := &n.teller
	t.mu.Lock()
	outcomes := t.outcomes
	t.outcomes = nil
	t.mu.Unlock()
	if room == settleOnly && len(outcomes) == 0 {
		return false
	}
	ctx, cancel := n.patiently(ctx)
	defer cancel()
	asked := n.elapsed()
	result, err := n.store.sweep(ctx, room, outcomes)
	n.stats.failed(err)
	n.sayHeld(result)
	if result.beat > 0 {
		t.pause = min(n.cfg.Sweep, result.beat/2)
	}
	if failing := err != nil; failing != t.failing {
		if t.failing = failing; failing {
			n.cfg.Logger.Warn("fleet: ends of sessions can't be looked for", "node", n.cfg.Node, "error", err)
		} else {
			n.cfg.Logger.Info("fleet: ends of sessions are looked for again", "node", n.cfg.Node)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes = append(t.outcomes, result.open...) // settling again changes nothing
	for _, e := range result.events {
		t.waiting = append(t.waiting, taken{e, asked, asked})
	}
	n.startTelling()
	return err == nil && (len(result.events) > 0 || result.more)
}

// patiently gives a sweep more time than other calls, until the node ends. Nobody waits for a sweep,
// but if the node does not wait for the answer, the ends in it are told late.
func (n *Node) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.Background(), n.cfg.Timeout)
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(n.cfg.Timeout, min(n.cfg.shortest()/3, patience)))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(n.cfg.Timeout, cancel) })
	return look, func() { stop(); cancel() }
}

// startTelling starts goroutines for the waiting ends, up to Config.Calls. The caller holds
// n.teller.mu.
func (n *Node) startTelling() {
	t := &n.teller
	for idle := len(t.waiting) - t.running; idle > 0 && t.running < n.cfg.Calls; idle-- {
		t.running++
		t.calls.Go(n.tellSome)
	}
}

// sessionsHeld and nodesHeld say in words why sweep.lua holds back a slot: all of the slot, or only
// its nodes.
var (
	sessionsHeld = map[string]string{
		"gap":    "nobody has looked for a while",
		"clock":  "the server's clock was set back",
		"server": "the server's data may be older",
		"share":  "too many sessions would expire at once",
	}
	nodesHeld = map[string]string{
		"beats": "nobody has looked for a while",
		"nodes": "too many have died at once",
	}
)

// sayHeld logs a pause of expiries, and its cause.
func (n *Node) sayHeld(result swept) {
	for why, slots := range result.held {
		n.stats.held.Add(uint64(slots))
		if text, only := nodesHeld[why]; only {
			n.cfg.Logger.Warn("fleet: no node is taken for dead for a lease: "+text, "slots", slots, "lease", result.silence)
		} else {
			n.cfg.Logger.Warn("fleet: no session expires for a lease: "+sessionsHeld[why], "slots", slots, "due", result.due, "lease", result.silence)
		}
	}
}

// tellSome tells ends until none waits.
func (n *Node) tellSome() {
	t := &n.teller
	for {
		t.mu.Lock()
		if len(t.waiting) == 0 {
			t.running--
			t.notify()
			t.mu.Unlock()
			return
		}
		if stale := t.stale(n.elapsed() - freshness); len(stale) > 0 {
			t.busy += len(stale)
			t.mu.Unlock()
			fresh := n.stillEnded(stale)
			t.mu.Lock()
			t.busy -= len(stale)
			t.waiting = append(fresh, t.waiting...)
			t.giveBack()
			n.startTelling() // other goroutines may have ended while none waited
			t.mu.Unlock()
			continue
		}
		end := t.waiting[0]
		t.waiting = t.waiting[1:]
		if t.busy++; len(t.waiting)+t.busy == tellBatch/2 {
			t.notify() // takes more ends before none is left
		}
		t.mu.Unlock()
		outcome := n.tell(end.event)
		t.mu.Lock()
		t.busy--
		t.outcomes = append(t.outcomes, outcome)
		t.mu.Unlock()
	}
}

// notify wakes the tell loop.
func (t *teller) notify() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// stale takes the first waiting ends off the queue, up to the first one looked at since then, and at
// most lookBatch. The caller holds t.mu.
func (t *teller) stale(then time.Duration) []taken {
	count := 0
	for count < min(len(t.waiting), lookBatch) && t.waiting[count].looked < then {
		count++
	}
	stale := t.waiting[:count:count]
	t.waiting = t.waiting[count:]
	return stale
}

// tell calls OnOffline.
func (n *Node) tell(end event) told {
	ctx, cancel := context.WithTimeout(context.Background(), tellTimeout)
	defer cancel()
	err := n.protect("OnOffline", func() error {
		return n.cfg.OnOffline(ctx, Offline{
			Session: end.id, Epoch: end.token.epoch(), Reason: reasonOf(end.reason), Attempt: end.attempts,
			LastSeen: time.UnixMilli(end.seen), Node: end.record.node, Meta: []byte(end.record.meta),
		})
	})
	if err != nil {
		n.stats.untold.Add(1)
		n.cfg.Logger.Warn("fleet: OnOffline has failed, and is told again", "session", end.id, "attempt", end.attempts, "error", err)
		return told{event: end, after: retryAfter(end.attempts)}
	}
	n.stats.told.Add(1)
	return told{event: end, done: true}
}

// stillEnded returns the ends this node may still tell: nobody has registered the session since,
// and enough of delivery is left.
func (n *Node) stillEnded(ends []taken) (still []taken) {
	ids := make([]string, len(ends))
	for i, end := range ends {
		ids[i] = end.id
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	defer cancel()
	answers, err := n.store.get(ctx, ids)
	n.stats.failed(err)
	if err != nil {
		n.cfg.Logger.Debug("fleet: ends are told later", "count", len(ends), "error", err)
		n.tellLater(ends)
		return nil
	}
	now := n.elapsed() // the start of the look would be stale again after a slow answer, for ever
	for i, end := range ends {
		a := answers[i]
		if a.there && a.value.token == end.token && a.value.state == stateEnded && now-end.at <= delivery-tellTimeout {
			end.looked = now
			still = append(still, end)
		}
	}
	return still
}

// tellLater gives back ends after a failed look. So they are told after firstRetry, and not only
// after delivery.
func (n *Node) tellLater(ends []taken) {
	t := &n.teller
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, end := range ends {
		t.outcomes = append(t.outcomes, told{event: end.event, after: firstRetry})
	}
}

func retryAfter(attempt int) time.Duration {
	return min(firstRetry<<min(max(attempt-1, 0), 10), longestRetry)
}
