package fleet

import (
	"context"
	"sync"
	"time"
)

const (
	// tellBatch is how many ends a node has taken and not told at most.
	tellBatch = 512

	// delivery is how long nobody else tells an end that a node has taken, and tellTimeout how
	// long OnOffline may take.
	delivery    = time.Minute
	tellTimeout = 30 * time.Second

	// freshness is how long after it was taken an end is told without another look, and lookBatch
	// how many are looked at together: one by one, a server that is busy would have few told.
	freshness = 50 * time.Millisecond
	lookBatch = 64

	// patience is up to how long a look may take.
	patience = 5 * time.Second

	// firstRetry and longestRetry are how long an end waits that could not be told.
	firstRetry   = time.Second
	longestRetry = time.Minute
)

// teller has the ends of sessions that this node tells.
type teller struct {
	mu       sync.Mutex
	waiting  []taken
	running  int // of Config.Calls
	busy     int // ends that are being told
	outcomes []told
	changed  chan struct{} // has an element when all was told, or half of it
	calls    sync.WaitGroup
	closed   bool // the node tells no more
	failing  bool // the tell loop's
}

type taken struct {
	event
	at     time.Duration
	looked time.Duration // when it was one for certain
}

// tellLoop has sessions end whose lease is over, and tells ends.
func (n *Node) tellLoop(ctx context.Context) {
	t := &n.teller
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if n.sweepOnce(ctx, t.room()) {
			continue // there may be more
		}
		timer.Reset(n.cfg.Sweep)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-t.changed: // and is settled, if that was all of it or enough
		}
	}
	t.mu.Lock()
	t.closed = true
	t.giveBack()
	t.mu.Unlock()
	t.calls.Wait()
	n.sweepOnce(ctx, settleOnly)
}

// giveBack has others tell what waits, if this node does not any more: they need not wait. t.mu
// must be held.
func (t *teller) giveBack() {
	if !t.closed {
		return
	}
	for _, end := range t.waiting {
		t.outcomes = append(t.outcomes, told{event: end.event})
	}
	t.waiting = nil
}

// room is how many ends may be taken.
func (t *teller) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := tellBatch - len(t.waiting) - t.busy; room >= tellBatch/2 {
		return room
	}
	return 0 // few at a time are dear
}

// sweepOnce settles what was told and takes what is to tell. It reports whether there was any.
func (n *Node) sweepOnce(ctx context.Context, room int) bool {
	if n.layout.wrong() != nil {
		return false // its sessions may be elsewhere
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

// patiently gives a look more time than other calls have, until the node ends: nobody waits for it, and
// what it has taken would be told late if the answer were not awaited.
func (n *Node) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.Background(), n.cfg.Timeout)
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(n.cfg.Timeout, min(n.cfg.shortest()/3, patience)))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(n.cfg.Timeout, cancel) })
	return look, func() { stop(); cancel() }
}

// startTelling has as many goroutines as there may be tell what waits. n.teller.mu must be held.
func (n *Node) startTelling() {
	t := &n.teller
	for idle := len(t.waiting) - t.running; idle > 0 && t.running < n.cfg.Calls; idle-- {
		t.running++
		t.calls.Go(n.tellSome)
	}
}

// sessionsHeld and nodesHeld are why sweep.lua holds a slot back, in words: all that is in it, or only
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

// sayHeld says aloud that nothing expires for a while, and why.
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
			n.startTelling() // some may have ended, when nothing waited
			t.mu.Unlock()
			continue
		}
		end := t.waiting[0]
		t.waiting = t.waiting[1:]
		if t.busy++; len(t.waiting)+t.busy == tellBatch/2 {
			t.notify() // so that there are more before there are none
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

// stale takes the first ends if they were looked at before then. t.mu must be held.
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

// stillEnded returns those that nobody has registered since, and that are still this node's to
// tell.
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
	now := n.elapsed() // and not when it was asked, or a slow answer would be asked for again and again
	for i, end := range ends {
		a := answers[i]
		if a.there && a.value.token == end.token && a.value.state == stateEnded && now-end.at <= delivery-tellTimeout {
			end.looked = now
			still = append(still, end)
		}
	}
	return still
}

// tellLater gives ends back that can't be looked at, so that they don't wait until nobody tells them
// any more.
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
