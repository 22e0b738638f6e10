package timeout

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// settleSize is how many outcomes are settled by one call at most, and settleWait for how
	// long they wait for each other where there is a backlog.
	settleSize = 1024
	settleWait = 5 * time.Millisecond

	// queueMax is how many tasks are leased ahead at most.
	queueMax = 2048

	// queueFor is for how long tasks should wait for a handler, leased: so long that a call
	// of the engine is worth its while, and so short that a node does not hoard what others
	// could do.
	queueFor = 100 * time.Millisecond

	// engineTimeout is how long a call of the engine may take, and engineCalls how many calls
	// are under way at the same time where there is a backlog: one is answered while what
	// another one has brought is run.
	engineTimeout = 15 * time.Second
	engineCalls   = 2
)

// worker serves one topic on this node. One goroutine asks the engine for what is due and
// settles what is done (serve), one extends leases (keep), and as many as there is work for
// run handlers (work). An idle worker sleeps: serve until the next due time, until it is nudged,
// or for Center.poll, and keep until something is leased.
type worker struct {
	c      *Center
	name   string
	nudges chan struct{} // has an element when serve shall plan anew
	leases chan struct{} // has an element when something was leased, for keep
	ended  chan struct{} // closed when serve and keep shall end
	gone   sync.WaitGroup
	dealt  int // of how many slots it has its share: for Run

	// mu guards what follows. It is not held while the engine or a handler is called.
	mu       sync.Mutex
	topic    Topic
	handler  Handler
	slots    []int // that are asked for; nil means all
	term     int64
	limiter  *rate.Limiter // nil without Topic.Rate
	queue    []*attempt    // leased and not begun, the next first
	limit    int           // how long the queue may get
	full     bool          // whether the last batch was as large as it could be
	asked    int           // how many tasks the engine is being asked for
	outcomes []Outcome     // to be settled
	first    time.Time     // when the first of outcomes came
	held     map[*attempt]struct{}
	lost     map[*attempt]time.Time // handlers that run without a lease, and since when
	hanging  int                    // hanging handlers without a place
	crowded  bool                   // whether there are too many of them
	workers  int                    // goroutines in work
	busy     int                    // of them, those with an attempt
	calls    map[string]int         // of those with a target, how many are under way for each
	quiet    chan struct{}          // closed when workers is 0, where somebody waits for it
	stopping bool
	look     time.Time     // when serve looks at the latest
	rescue   time.Time     // when serve looks for late tasks in the slots of other nodes
	moved    time.Time     // when a handler last began or ended
	stuck    bool          // whether all handlers hang: nothing is leased then
	ahead    time.Duration // how far the engine's clock is ahead of this one's, at least
	counts   Stats
}

// attempt is a lease that this node has.
type attempt struct {
	Leased
	ctx    context.Context
	cancel context.CancelCauseFunc
	until  time.Time // when the lease ends, by this node's clock
	due    time.Time // the action time, by this node's clock, where it is a first attempt
	queued time.Time
	begun  time.Time // zero while it is queued
	target string    // what its callback calls, or empty where it has none of its own
	over   bool      // is settled, lost or given up: what the handler returns is not looked at
	left   bool      // was given up with a handler that hangs, and its goroutine counted out
}

func newWorker(c *Center, topic Topic, handler Handler) *worker {
	w := &worker{
		c:      c,
		name:   topic.Name,
		nudges: make(chan struct{}, 1),
		leases: make(chan struct{}, 1),
		ended:  make(chan struct{}),
		held:   make(map[*attempt]struct{}),
		lost:   make(map[*attempt]time.Time),
		calls:  make(map[string]int),
		slots:  []int{}, // none before there is a view
	}
	w.change(topic, handler)
	w.gone.Go(w.serve)
	w.gone.Go(w.keep)
	return w
}

// change gives the worker what the topic and its handler are now.
func (w *worker) change(topic Topic, handler Handler) {
	topic = topic.WithDefaults()
	w.mu.Lock()
	defer w.mu.Unlock()
	if topic.Rate != w.topic.Rate {
		w.limiter = nil
		if topic.Rate > 0 {
			w.limiter = rate.NewLimiter(rate.Limit(topic.Rate), max(1, int(topic.Rate/10)))
		}
	}
	if w.limit < topic.Concurrency || w.topic.Concurrency != topic.Concurrency {
		w.limit = topic.Concurrency
	}
	if w.topic.Paused != topic.Paused || w.topic.Concurrency != topic.Concurrency {
		w.lookNow()
	}
	w.topic, w.handler = topic, handler
	w.hire()
}

// assign gives the worker the slots that are its own.
func (w *worker) assign(slots []int, term int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots, w.term, w.full = slots, term, false
	if w.rescue.IsZero() {
		w.rescue = time.Now().Add(w.rescueWait())
	}
	w.lookNow()
}

// lookNow has serve look at once. w.mu must be held.
func (w *worker) lookNow() {
	w.look = time.Time{}
	w.nudge()
}

func (w *worker) nudge() { ring(w.nudges) }

// ring puts an element into a channel for one, if there is none.
func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// expect has serve look when a task is due that was set here, by the engine's clock.
func (w *worker) expect(due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookAt(due.Add(-w.ahead))
}

// lookAt has serve look at a time at the latest. w.mu must be held.
func (w *worker) lookAt(at time.Time) {
	if at.Before(w.look) {
		w.look = at
		w.nudge()
	}
}

// serve asks the engine for what is due, and settles what is done, until the worker ends.
func (w *worker) serve() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	troubles := newTroubles(w)
	answers := make(chan error, engineCalls)
	calls := 0
	for {
		nudges := w.nudges
		wait := troubles.pause(time.Now())
		if wait > 0 {
			nudges = nil // not before that
		} else {
			var ask Ask
			if ask, wait = w.plan(time.Now(), calls); wait == 0 {
				calls++
				w.gone.Go(func() { answers <- w.ask(ask) })
				continue
			}
		}
		timer.Reset(wait)
		select {
		case err := <-answers:
			calls--
			troubles.answered(err, time.Now())
		case <-timer.C:
		case <-nudges:
		case <-w.ended:
			for ; calls > 0; calls-- {
				troubles.answered(<-answers, time.Now())
			}
			w.settleRest()
			return
		}
	}
}

// settleRest settles what is left, where the engine answers.
func (w *worker) settleRest() {
	for {
		ask, _ := w.plan(time.Now(), 0)
		if len(ask.Settle) == 0 || w.ask(ask) != nil {
			return
		}
	}
}

// plan returns what to ask the engine now, while so many calls are under way, or how long
// there is nothing to ask.
func (w *worker) plan(now time.Time, calls int) (Ask, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putOff(now)
	poll := w.c.poll()
	longest := poll
	if len(w.calls) > 0 && len(w.queue) > 0 {
		longest = min(longest, queueFor) // some may have to be put off then
	}
	ask := Ask{Topic: w.name, Node: w.c.cfg.Node, Lease: w.topic.Lease, Slots: w.slots, Term: w.term}
	ask.Max = w.room(now)
	n := min(len(w.outcomes), settleSize)
	switch {
	case calls == engineCalls || calls > 0 && (!w.full || ask.Max == 0):
		return ask, longest
	case n > 0 && w.full && ask.Max == 0 && len(w.queue) > 0 && now.Sub(w.first) < settleWait:
		return ask, settleWait - now.Sub(w.first)
	case n > 0:
		ask.Settle = w.outcomes[:n:n]
		w.outcomes = append([]Outcome(nil), w.outcomes[n:]...)
	case !w.rescue.IsZero() && !now.Before(w.rescue) && w.spare(now) > 0:
		ask.Slots, ask.Term, ask.Late, ask.Max = w.foreign(), 0, w.topic.Lease, w.spare(now)
		w.rescue = now.Add(w.rescueWait())
	case ask.Max > 0:
		if wait := min(max(w.look.Sub(now), 0), longest); wait > 0 {
			return ask, wait
		}
	case w.limiter != nil && w.wants() > 0: // until some of a burst can begin
		missing := max(1, float64(w.limiter.Burst())/2) - w.limiter.TokensAt(now)
		return ask, min(max(time.Duration(missing/w.topic.Rate*float64(time.Second)), time.Millisecond), longest)
	default:
		return ask, longest
	}
	w.asked += ask.Max
	if ask.Max > 0 && ask.Late == 0 {
		w.look = now.Add(poll - jitter((poll-w.c.cfg.Poll)/5)) // hints from now on count beside the answer
	}
	return ask, 0
}

// room returns how many tasks to ask for now. w.mu must be held.
func (w *worker) room(now time.Time) int {
	room := w.wants()
	if w.limiter != nil {
		room = min(room, int(w.limiter.TokensAt(now))-w.asked)
	}
	return max(room, 0)
}

// wants is room without the limit of Topic.Rate. w.mu must be held.
func (w *worker) wants() int {
	if w.stopping || w.topic.Paused || w.stuck || w.slots != nil && len(w.slots) == 0 {
		return 0
	}
	room := w.limit - len(w.queue) - w.asked
	if room < w.least() {
		return 0
	}
	if w.full {
		room = min(room, (w.limit+1)/2) // and as much by another call
	}
	return room
}

// least is how many tasks are worth a call: with a backlog fewer, since they surely are there
// and the queue must not run dry meanwhile. w.mu must be held.
func (w *worker) least() int {
	if w.full {
		return max(1, w.limit/4)
	}
	return max(1, w.limit/2)
}

// ask calls the engine, and takes what it answers.
func (w *worker) ask(ask Ask) error {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	asked := time.Now()
	batch, err := w.c.engine.Expire(ctx, ask)
	targets := w.targets(batch.Leased)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked -= ask.Max
	if err == nil {
		w.take(ask, batch, targets, asked, time.Now())
		return nil
	}
	w.look = time.Time{}            // as soon as troubles allow it
	if !errors.Is(err, ErrFenced) { // then they are settled
		w.outcomes = append(ask.Settle, w.outcomes...)
	}
	return err
}

// take queues what was leased. w.mu must be held.
func (w *worker) take(ask Ask, batch Batch, targets []string, asked, now time.Time) {
	w.counts.Dead += uint64(len(batch.Died))
	for i, settled := range batch.Settled {
		if !settled && ask.Settle[i].As != Pending {
			w.counts.Lost++
		}
	}
	w.ahead = batch.Now.Sub(now)
	if ask.Max == 0 { // nothing was looked for
		for _, outcome := range ask.Settle {
			if outcome.As == Pending {
				w.lookAt(now.Add(outcome.After))
			}
		}
		return
	}
	if full := len(batch.Leased) == ask.Max; ask.Late == 0 {
		w.tune(now, now.Sub(asked), full)
	} else if w.counts.Rescued += uint64(len(batch.Leased)); full {
		w.rescue = now
	}
	for i := range batch.Leased {
		a := &attempt{Leased: batch.Leased[i], target: targets[i], queued: now, until: asked.Add(ask.Lease)}
		if a.Attempts == 1 {
			a.due = now.Add(a.Due.Sub(batch.Now)) // a step of this node's clock does not matter
		}
		if a.Again {
			w.counts.Again++
		}
		w.held[a] = struct{}{}
		if w.stopping { // it was not when it asked
			w.giveBack(a, time.Time{})
			continue
		}
		w.queue = append(w.queue, a)
	}
	if len(w.held) > 0 {
		ring(w.leases)
	}
	if w.limiter != nil {
		w.limiter.ReserveN(now, len(batch.Leased))
	}
	w.hire()
	if ask.Late > 0 {
		return // it says nothing of its own slots
	}
	switch {
	case w.full:
		w.lookAt(now)
	case !batch.Next.IsZero():
		w.lookAt(now.Add(batch.Next.Sub(batch.Now)))
	}
}

// tune has the queue be as long as handlers can take in about queueFor: longer where they
// have emptied it before a full batch came again. An engine that takes a good part of a lease
// for a batch gets smaller ones: what comes when the lease has ended is leased in vain, again
// and again. w.mu must be held.
func (w *worker) tune(now time.Time, took time.Duration, full bool) {
	switch {
	case len(w.queue) <= w.limit/4 && full && w.full && took <= w.topic.Lease/8:
		w.limit = min(2*w.limit, max(queueMax, w.topic.Concurrency))
	case took > w.topic.Lease/4, len(w.queue) > 0 && now.Sub(w.queue[0].queued) > queueFor:
		w.limit = max(w.limit/2, w.topic.Concurrency)
	}
	w.full = full
}

// settle has an outcome be told to the engine. w.mu must be held.
func (w *worker) settle(outcome Outcome) {
	if len(w.outcomes) == 0 {
		w.first = time.Now()
		w.nudge()
	}
	w.outcomes = append(w.outcomes, outcome)
}
