package timeout

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// worker serves one topic on this node. One goroutine plans the questions to the parts of the engine: for due tasks, and
// with outcomes to settle (serve). Another extends leases (keep). Up to places goroutines run handlers
// (work). In an idle worker, serve sleeps until the next due time, until a wake-up, or for
// Center.poll; keep sleeps until something is leased.
type worker struct {
	leases chan struct{} // has an element if keep must look at what was leased
	ended  chan struct{} // closed to end serve and keep
	gone   sync.WaitGroup
	asking sync.WaitGroup // calls of serve

	looks // its mu guards the fields below

	topic    Topic
	schedule *engine.Schedule // of Topic.Every; nil without it
	unread   error            // why this node can't read Topic.Every; then it leases nothing
	handler  Handler
	owners   []string  // of the slots, by the last view; nil before the first one
	since    time.Time // when the last of the slots came that did not count at once
	slots    []int     // to ask for; nil means all
	counted  []int     // those that count for limits of all nodes, until fresh
	fresh    time.Time
	handed   []int         // the slots that have gone to other nodes
	handover time.Time     // until then these may not count there
	places   int           // for handlers: see allowed
	flow     flow          // for Config.Concurrency
	rest     time.Time     // until then nothing is leased unless the node has room
	limiter  *rate.Limiter // nil without Topic.Rate and Topic.GlobalRate
	queue    []*attempt    // leased but not begun, the next first
	limit    int           // the longest queue allowed
	came     int           // tasks leased since it has changed
	held     map[*attempt]struct{}
	lost     map[*attempt]time.Time // handlers running without a lease, and since when
	doubts   map[string]time.Time   // when somebody last said that a lease of a task has ended, by ID; empty means any task
	pause    time.Duration          // of keep; zero means until something is leased
	hanging  int                    // hanging handlers without a place
	crowded  bool                   // whether the log has said that too many handlers hang
	workers  int                    // goroutines in work
	busy     int                    // workers with an attempt
	calls    map[string]int         // calls under way, by target
	quiet    chan struct{}          // closed when workers is 0; nil if nobody waits for that
	stopping bool
	ending   bool      // the contexts of the handlers have ended, too
	moved    time.Time // when a handler last began or ended
	stuck    bool      // whether all handlers hang; if so, nothing is leased
	counts   Stats
	hold     hold // of tasks that can't be run now
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
	visit    *visit    // of its call to the circuit; nil without one
	over     bool      // settled, lost or given up: the handler's result is ignored
	left     bool      // given up because its handler hangs; its goroutine is counted out
	accepted bool      // its outcome comes later: see ErrAccepted
	trial    bool      // leased to try a target with an open circuit
}

func newWorker(c *Center, topic Topic, handler Handler) *worker {
	w := &worker{
		leases: make(chan struct{}, 1),
		ended:  make(chan struct{}),
		held:   make(map[*attempt]struct{}),
		lost:   make(map[*attempt]time.Time),
		doubts: make(map[string]time.Time),
		calls:  make(map[string]int),
		slots:  []int{}, // none before there is a view
	}
	w.attach(c, topic.Name)
	w.flow.worker = w
	c.fairQueue.add(&w.flow)
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
	w.adapt(topic, handler)
	w.topic, w.handler = topic, handler
	w.deal(time.Now())
}
