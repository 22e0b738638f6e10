package fleet

import (
	"context"
	"fmt"
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

	// freshness is how long after it was taken an end is told without another look.
	freshness = 50 * time.Millisecond

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
	changed  chan struct{} // has an element when something was told
	calls    sync.WaitGroup
	failing  bool // the tell loop's
}

type taken struct {
	event
	at time.Duration
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
	for _, end := range t.waiting { // others tell them, and need not wait
		t.outcomes = append(t.outcomes, told{event: end.event})
	}
	t.waiting = nil
	t.mu.Unlock()
	t.calls.Wait()
	n.sweepOnce(context.Background(), 0)
}

// room is how many ends may be taken.
func (t *teller) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(tellBatch-len(t.waiting)-t.busy, 0)
}

// sweepOnce settles what was told and takes what is to tell. It reports whether there was any.
func (n *Node) sweepOnce(ctx context.Context, room int) bool {
	t := &n.teller
	t.mu.Lock()
	outcomes := t.outcomes
	t.outcomes = nil
	t.mu.Unlock()
	if room == 0 && len(outcomes) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.Timeout)
	defer cancel()
	asked := n.elapsed()
	result, err := n.store.sweep(ctx, room, outcomes)
	n.stats.failed(err)
	n.sayHeld(result)
	if failing := err != nil; failing != t.failing {
		if t.failing = failing; failing {
			n.cfg.Logger.Warn("fleet: ends of sessions can't be looked for", "node", n.cfg.Node, "error", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil { // settling again changes nothing
		t.outcomes = append(t.outcomes, outcomes...)
	}
	for _, e := range result.events {
		t.waiting = append(t.waiting, taken{e, asked})
	}
	for idle := len(t.waiting) - t.running; idle > 0 && t.running < n.cfg.Calls; idle-- {
		t.running++
		t.calls.Go(n.tellSome)
	}
	return err == nil && len(result.events) > 0
}

// sayHeld says aloud that nothing expires for a while, and why.
func (n *Node) sayHeld(result swept) {
	for why, slots := range result.held {
		n.stats.held.Add(uint64(slots))
		text := map[string]string{
			"gap": "nobody has looked for a while", "clock": "the server's clock was set back",
			"server": "the server's data may be older", "share": "too many sessions would expire at once",
		}[why]
		n.cfg.Logger.Warn("fleet: no session expires for a lease: "+text, "slots", slots, "due", result.due, "lease", n.cfg.Lease)
	}
}

// tellSome tells ends until none waits.
func (n *Node) tellSome() {
	t := &n.teller
	for {
		t.mu.Lock()
		if len(t.waiting) == 0 {
			t.running--
			t.mu.Unlock()
			select {
			case t.changed <- struct{}{}:
			default:
			}
			return
		}
		end := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.busy++
		t.mu.Unlock()
		outcome, settled := n.tell(end)
		t.mu.Lock()
		t.busy--
		if settled {
			t.outcomes = append(t.outcomes, outcome)
		}
		t.mu.Unlock()
	}
}

// tell calls OnOffline, if the end is still one and still this node's to tell.
func (n *Node) tell(end taken) (outcome told, settled bool) {
	ctx, cancel := context.WithTimeout(context.Background(), tellTimeout)
	defer cancel()
	age := n.elapsed() - end.at
	if age > delivery-tellTimeout {
		return told{}, false
	}
	if age > freshness && !n.stillEnded(ctx, end.event) {
		return told{}, false
	}
	err := n.protect("OnOffline", func() error {
		return n.cfg.OnOffline(ctx, Offline{
			Session: end.id, Epoch: end.token.epoch(), Reason: reasonOf(end.reason), Attempt: end.attempts,
			LastSeen: time.UnixMilli(end.seen), Node: end.record.node, Meta: []byte(end.record.meta),
		})
	})
	if err != nil {
		n.stats.untold.Add(1)
		n.cfg.Logger.Warn("fleet: OnOffline has failed, and is told again", "session", end.id, "attempt", end.attempts, "error", err)
		return told{event: end.event, after: retryAfter(end.attempts)}, true
	}
	n.stats.told.Add(1)
	return told{event: end.event, done: true}, true
}

// stillEnded looks whether somebody has registered the session since. An end that can't be looked
// at is told later.
func (n *Node) stillEnded(ctx context.Context, e event) bool {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	answers, err := n.store.get(ctx, []string{e.id})
	if err != nil {
		n.cfg.Logger.Debug("fleet: an end is told later", "session", e.id, "error", fmt.Sprint(err))
		return false
	}
	return answers[0].there && answers[0].value.token == e.token && answers[0].value.state == stateEnded
}

func retryAfter(attempt int) time.Duration {
	return min(firstRetry<<min(max(attempt-1, 0), 10), longestRetry)
}
