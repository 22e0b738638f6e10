package timeout

import (
	"context"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// worker serves one topic on this node. It leases its due tasks for handlers, and settles their outcomes with the next
// questions (leaser). Between them it extends the leases (keep). Up to places goroutines run handlers (work).
type worker struct {
	gone sync.WaitGroup // of run, and of calls that extend leases

	leaser // its mu guards the fields below

	handler Handler
	ownership
	places    int        // for handlers: see allowed
	flow      flow       // for Config.Concurrency
	rest      time.Time  // until then nothing is leased unless the node has room
	queue     []*attempt // leased but not begun, the next first
	limit     int        // the longest queue allowed
	came      int        // tasks leased since it has changed
	held      map[*attempt]struct{}
	lost      map[*attempt]time.Time // handlers running without a lease, and since when
	doubts    map[string]time.Time   // when somebody last said that a lease of a task has ended, by ID; empty means any task
	kept      time.Time              // when keep is next; zero while nothing is leased
	extending bool                   // whether leases are being extended
	told      bool                   // whether leases are doubted since the last extension began
	hanging   int                    // hanging handlers without a place
	crowded   bool                   // whether the log has said that too many handlers hang
	workers   int                    // goroutines in work
	busy      int                    // workers with an attempt
	calls     map[string]int         // calls under way, by target
	quiet     chan struct{}          // closed when workers is 0; nil if nobody waits for that
	stopping  bool
	ended     bool      // nothing more is asked for
	moved     time.Time // when a handler last began or ended
	stuck     bool      // whether all handlers hang; if so, nothing is leased
	hold      hold      // of tasks that can't be run now
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
	now      time.Time      // the engine's clock at queued, or a little before
	begun    time.Time      // zero while it is queued
	limit    time.Duration  // how long its handler may take; zero means for ever
	target   string         // the target of the task's own callback, or empty
	visit    *visit         // of its call to the circuit; nil without one
	own      engine.Attempt // for a transaction of the handler's own
	over     bool           // settled, lost or given up: the handler's result is ignored
	left     bool           // given up because its handler hangs; its goroutine is counted out
	accepted bool           // its outcome comes later: see ErrAccepted
	trial    bool           // leased to try a target with an open circuit
}

func newWorker(c *Center, topic Topic, handler Handler) *worker {
	w := &worker{
		held:      make(map[*attempt]struct{}),
		lost:      make(map[*attempt]time.Time),
		doubts:    make(map[string]time.Time),
		calls:     make(map[string]int),
		ownership: ownership{slots: []int{}, moves: make(map[int]time.Time)}, // none before there is a view
	}
	w.attach(c, topic.Name, w, new(sync.WaitGroup))
	w.flow.worker = w
	w.fair = &c.fairQueue
	w.fair.add(&w.flow)
	w.change(topic, handler)
	w.gone.Go(w.run)
	return w
}

// change gives the worker the current topic and handler.
func (w *worker) change(topic Topic, handler Handler) {
	topic = topic.WithDefaults()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.adapt(topic, handler)
	w.adopt(topic)
	w.handler = handler
	w.deal(time.Now())
}
