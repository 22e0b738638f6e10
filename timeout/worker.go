package timeout

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// settleSize is the largest number of outcomes settled by one call. With a backlog,
	// outcomes wait up to settleWait to be settled together. PostgreSQL settles so many in one
	// transaction, so none is settled twice if it fails.
	settleSize = 1000
	settleWait = 5 * time.Millisecond

	// queueMax is the largest number of tasks leased ahead, unless Topic.Concurrency is larger.
	queueMax = 2048

	// queueFor is the intended wait of a leased task for a handler. It is long enough to make a
	// call of the engine worthwhile, and short enough to leave tasks to other nodes.
	queueFor = 100 * time.Millisecond

	// engineTimeout is the time limit of a call of the engine. With a backlog, up to engineCalls
	// calls are under way: handlers run the tasks of one while the engine answers another.
	engineTimeout = 15 * time.Second
	engineCalls   = 2
)

// worker serves one topic on this node. One goroutine asks the engine for due tasks and settles
// outcomes (serve). Another extends leases (keep). Up to places goroutines run handlers
// (work). In an idle worker, serve sleeps until the next due time, until a nudge, or for
// Center.poll; keep sleeps until something is leased.
type worker struct {
	c      *Center
	name   string
	nudges chan struct{} // has an element if serve must plan anew
	leases chan struct{} // has an element if keep must look at what was leased
	ended  chan struct{} // closed to end serve and keep
	gone   sync.WaitGroup
	dealt  int // the number of slots at the last deal, for Run

	// mu guards the fields below. It is not held during calls of the engine or a handler.
	mu       sync.Mutex
	topic    Topic
	schedule *engine.Schedule // of Topic.Every; nil without it
	unread   error            // why this node can't read Topic.Every; then it leases nothing
	handler  Handler
	slots    []int // to ask for; nil means all
	term     int64
	places   int              // for handlers: see allowed
	tenant   tenant           // for Config.Concurrency
	rest     time.Time        // until then nothing is leased unless the node has room
	limiter  *rate.Limiter    // nil without Topic.Rate and Topic.GlobalRate
	queue    []*attempt       // leased but not begun, the next first
	limit    int              // the longest queue allowed
	full     bool             // whether the last batch had as many tasks as asked for: a backlog
	asked    int              // tasks asked for by the calls under way
	outcomes []engine.Outcome // to be settled
	first    time.Time        // when the first of outcomes was added
	held     map[*attempt]struct{}
	lost     map[*attempt]time.Time // handlers running without a lease, and since when
	pause    time.Duration          // of keep; zero means until something is leased
	hanging  int                    // hanging handlers without a place
	crowded  bool                   // whether the log has said that too many handlers hang
	workers  int                    // goroutines in work
	busy     int                    // workers with an attempt
	calls    map[string]int         // calls under way, by target
	quiet    chan struct{}          // closed when workers is 0; nil if nobody waits for that
	stopping bool
	look     time.Time // the latest time of the next look
	net      time.Time // that time if nothing is known to be due before
	own      time.Time // when a peek no longer does instead
	rescue   time.Time // the time to look for late tasks in the slots of other nodes
	rescued  bool      // whether the last look was that one; then it is the turn of the own slots
	moved    time.Time // when a handler last began or ended
	stuck    bool      // whether all handlers hang; if so, nothing is leased
	clock    clock     // of the last answer
	counts   Stats
}

// attempt is a lease of this node.
type attempt struct {
	engine.Leased
	ctx      context.Context
	cancel   context.CancelCauseFunc
	until    time.Time     // when the lease ends, by this node's clock
	lease    time.Duration // its length
	due      time.Time     // the action time, by this node's clock; zero after the first attempt
	queued   time.Time
	now      time.Time // the engine's clock at queued, or a little before
	begun    time.Time // zero while it is queued
	target   string    // the target of the task's own callback, or empty
	over     bool      // settled, lost or given up: the handler's result is ignored
	left     bool      // given up because its handler hangs; its goroutine is counted out
	accepted bool      // its outcome comes later: see ErrAccepted
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
	w.tenant.worker = w
	c.arbiter.add(&w.tenant)
	w.change(topic, handler)
	w.gone.Go(w.serve)
	w.gone.Go(w.keep)
	return w
}

// change gives the worker the current topic and handler.
func (w *worker) change(topic Topic, handler Handler) {
	topic = topic.WithDefaults()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.topic.Paused != topic.Paused {
		w.lookNow()
	}
	if topic.Every != w.topic.Every {
		if w.schedule, w.unread = scheduleOf(topic); w.unread != nil {
			w.c.cfg.Logger.Error("timeout: this node can't read the schedule of a topic, and does not serve it", "topic", w.name, "err", w.unread)
		}
		w.lookNow()
	}
	w.topic, w.handler = topic, handler
	w.deal(time.Now())
}

// assign gives the worker its slots.
func (w *worker) assign(slots []int, term int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.slots, w.term, w.full = slots, term, false
	if w.rescue.IsZero() {
		w.rescue = now.Add(w.rescueWait())
	}
	w.deal(now)
	w.lookNow()
}

// lookNow makes serve look at once. w.mu must be held.
func (w *worker) lookNow() {
	w.look = time.Time{}
	w.nudge()
}

func (w *worker) nudge() { ring(w.nudges) }

// told makes serve look: somebody may have set a task.
func (w *worker) told() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookNow()
}

// ring puts an element into a channel of capacity one if it is empty.
func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// expect makes serve look when a task set on this node is due, by the engine's clock.
func (w *worker) expect(due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookAt(w.clock.at(due))
}

// lookAt makes serve look at that time at the latest. w.mu must be held.
func (w *worker) lookAt(at time.Time) {
	if at.Before(w.look) {
		w.look = at
		w.nudge()
	}
}

// serve asks the engine for due tasks and settles outcomes until the worker ends.
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
			var ask engine.Ask
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

// settleRest tries to settle the remaining outcomes, each once. All calls go at the same time: one that fails, or
// waits for a part of the engine, holds up no other.
func (w *worker) settleRest() {
	var asks []engine.Ask
	for ask, _ := w.plan(time.Now(), 0); len(ask.Settle) > 0; ask, _ = w.plan(time.Now(), 0) {
		asks = append(asks, ask)
	}
	var all sync.WaitGroup
	for _, ask := range asks {
		all.Go(func() { _ = w.ask(ask) })
	}
	all.Wait()
}

// plan returns the next question to the engine, or a positive wait if there is none yet. calls
// is the number of calls under way.
func (w *worker) plan(now time.Time, calls int) (engine.Ask, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putOff(now)
	poll := w.c.poll()
	longest := poll
	if len(w.calls) > 0 && len(w.queue) > 0 {
		longest = min(longest, queueFor) // some may have to be put off then
	}
	ask := engine.Ask{Topic: w.name, Node: w.c.cfg.Node, Lease: w.topic.Lease, Slots: w.slots, Term: w.fence()}
	if w.stopping {
		ask.Lease = 0 // the engine may end soon, and must keep no outcome for a later call
	}
	ask.Max = w.room(now)
	n := min(len(w.outcomes), settleSize)
	own := ask.Max > 0 && (n > 0 || !now.Before(w.look)) // its own slots are to be looked at
	switch {
	case calls == engineCalls || calls > 0 && (!w.full || ask.Max == 0):
		return ask, longest
	case n > 0 && w.full && ask.Max == 0 && len(w.queue) > 0 && now.Sub(w.first) < settleWait:
		return ask, settleWait - now.Sub(w.first)
	case w.rescues(now) && (!own || !w.rescued): // also under load: it would not end for this
		w.rescued = true
		ask.Slots, ask.Term, ask.Late, ask.Max = w.foreign(), 0, w.topic.Lease, w.spare(now)
		w.rescue = now.Add(w.rescueWait())
	case n > 0:
	case ask.Max > 0:
		if wait := min(max(w.look.Sub(now), 0), longest); wait > 0 {
			return ask, wait
		}
	case w.limiter != nil && w.wants() > 0: // until some of a burst can begin
		missing := max(1, float64(w.limiter.Burst())/2) - w.limiter.TokensAt(now)
		return ask, min(max(time.Duration(missing/float64(w.limiter.Limit())*float64(time.Second)), time.Millisecond), longest)
	default:
		return ask, longest
	}
	ask.Settle = w.outcomes[:n:n]
	w.outcomes = append([]engine.Outcome(nil), w.outcomes[n:]...)
	w.asked += ask.Max
	w.c.arbiter.ask(ask.Max)
	if ask.Max > 0 && ask.Late == 0 {
		w.rescued = false
		w.look = now.Add(poll - jitter((poll-w.c.cfg.Poll)/10)) // earlier hints are answered by this call, later ones still count
		w.net, w.own = w.look, now.Add(ownLook-jitter(ownLook/2))
	}
	return ask, 0
}

// room returns the number of tasks to ask for now. w.mu must be held.
func (w *worker) room(now time.Time) int {
	room := w.wants()
	if w.limiter != nil {
		room = min(room, int(w.limiter.TokensAt(now))-w.asked)
	}
	return max(room, 0)
}

// wants is room without the limit of Topic.Rate. w.mu must be held.
func (w *worker) wants() int {
	if w.stopping || w.topic.Paused || w.stuck || w.unread != nil || w.places == 0 || w.slots != nil && len(w.slots) == 0 {
		return 0
	}
	limit := w.limit
	if w.c.arbiter.limit > 0 {
		free := min(w.c.arbiter.free(), w.places)
		if free == 0 && time.Now().Before(w.rest) {
			return 0
		}
		limit = max(limit, free)
	}
	room := limit - len(w.queue) - w.asked
	if room < w.least() {
		return 0
	}
	if w.full {
		room = min(room, (limit+1)/2) // and as much by another call
	}
	if w.limiter != nil { // tasks that wait for places may all begin at once: no more than a burst
		room = min(room, w.places-w.busy+w.limiter.Burst()-len(w.queue)-w.asked)
	}
	return max(room, 0)
}

// base is the length of the queue allowed at least. With Config.Concurrency it is one, for a topic
// without any task could not say that it waits. w.mu must be held.
func (w *worker) base() int {
	if w.c.arbiter.limit > 0 {
		return min(w.places, 1)
	}
	return w.places
}

// least is the smallest number of tasks worth a call. It is smaller with a backlog: the tasks are
// surely there, and the queue must not run dry during the call. w.mu must be held.
func (w *worker) least() int {
	if w.full {
		return max(1, w.limit/4)
	}
	return max(1, w.limit/2)
}

// ask calls the engine and takes its answer.
func (w *worker) ask(ask engine.Ask) error {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	asked := time.Now()
	batch, err := w.c.engine.Expire(ctx, ask)
	targets := w.targets(batch.Leased)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked -= ask.Max
	w.c.arbiter.ask(-ask.Max)
	if err == nil {
		w.take(ask, batch, targets, asked, time.Now())
		return nil
	}
	w.look = time.Time{}                   // as soon as troubles allow it
	if !errors.Is(err, engine.ErrFenced) { // ErrFenced: they are settled
		w.outcomes = append(ask.Settle, w.outcomes...)
	}
	return err
}

// take queues the leased tasks. w.mu must be held.
func (w *worker) take(ask engine.Ask, batch engine.Batch, targets []string, asked, now time.Time) {
	w.counts.Dead += uint64(len(batch.Died))
	for i, settled := range batch.Settled {
		if o := ask.Settle[i]; !settled && (o.As != Pending || o.Anew) {
			w.counts.Lost++
		}
	}
	w.clock = clock{batch.Now, now}
	if ask.Max == 0 || ask.Late > 0 { // nothing was looked for in the worker's own slots
		for _, outcome := range ask.Settle {
			switch {
			case outcome.As != Pending:
			case outcome.Due.IsZero():
				w.lookAt(now.Add(outcome.After))
			default:
				w.lookAt(w.clock.at(outcome.Due))
			}
		}
	}
	if ask.Max == 0 {
		return
	}
	if full := len(batch.Leased) == ask.Max; ask.Late == 0 {
		w.tune(now, now.Sub(asked), full)
	} else if w.counts.Rescued += uint64(len(batch.Leased)); full {
		w.rescue = now
	}
	for i := range batch.Leased {
		a := &attempt{Leased: batch.Leased[i], target: targets[i], queued: now, now: batch.Now, until: asked.Add(ask.Lease), lease: ask.Lease}
		if !a.Asked.IsZero() {
			a.until = a.Asked.Add(ask.Lease)
		}
		if a.Attempts == 1 {
			a.due = now.Add(a.Due.Sub(batch.Now)) // a step of this node's clock does not matter
		}
		if a.Again {
			w.counts.Again++
		}
		w.held[a] = struct{}{}
		if w.stopping { // since the call
			w.giveBack(a, time.Time{})
			continue
		}
		if outcome, over := outlived(w.topic, w.schedule, a.Leased, batch.Now); over {
			w.drop(a)
			w.counts.gaveUp(outcome)
			w.settle(outcome)
			continue
		}
		w.queue = append(w.queue, a)
	}
	if len(w.held) > 0 && (w.pause == 0 || pauseFor(ask.Lease) < w.pause) {
		ring(w.leases)
	}
	if w.limiter != nil {
		w.limiter.ReserveN(now, len(batch.Leased))
	}
	w.hire()
	if ask.Late > 0 {
		return // a rescue says nothing about the worker's own slots
	}
	switch {
	case w.full:
		w.lookAt(now)
	case !batch.Next.IsZero():
		w.lookAt(now.Add(batch.Next.Sub(batch.Now)))
	}
}

// tune fits the queue to the tasks that handlers begin in about queueFor. The queue doubles if it
// is nearly empty when a full batch follows a full batch. It halves if tasks wait too long. It also
// halves if the engine takes more than a quarter of a lease for a batch: a batch that arrives after
// its leases ended is leased in vain, again and again. w.mu must be held.
func (w *worker) tune(now time.Time, took time.Duration, full bool) {
	switch {
	case len(w.queue) <= w.limit/4 && full && w.full && took <= w.topic.Lease/8:
		w.limit = min(2*w.limit, max(queueMax, w.topic.Concurrency))
	case took > w.topic.Lease/4, len(w.queue) > 0 && now.Sub(w.queue[0].queued) > queueFor:
		w.limit = max(w.limit/2, w.base())
	}
	w.full = full
}

// settle queues an outcome for the engine. w.mu must be held.
func (w *worker) settle(outcome engine.Outcome) {
	if len(w.outcomes) == 0 {
		w.first = time.Now()
		w.nudge()
	}
	w.outcomes = append(w.outcomes, outcome)
}
