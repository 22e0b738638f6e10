package memory

import (
	"container/heap"
	"maps"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// entry is a task, in 144 bytes. A Pending or Running task waits in the wheel, or in the heap
// of its slot. An ended one is in a heap of its topic.
type entry struct {
	// timer is started once, and moved from then on. It may come before the task's time, or
	// when the task is in the heap or has ended: then look does nothing.
	timer wheel.TimerOf[*entry]

	topic    *topic
	id       string
	payload  string
	due      int64 // action time
	at       int64 // next due time, end of the lease, or time of ending
	version  int64
	created  int64
	attempts int32
	index    int32 // in the heap, counted from 1; 0 if in none
	state    engine.State
	more     *more
}

// more holds fields unused by most waiting tasks.
type more struct {
	lease    int64 // the last lease's number, or 0
	ends     int64 // end of the last lease, in milliseconds by a clock never stepped since the engine's start
	calls    int   // of earlier runs
	failures int   // of earlier runs
	callback *engine.Callback
	trace    map[string]string
	options  engine.Options
	failure  string
	node     string
	log      []logged
}

// logged is an attempt, and when it was logged.
type logged struct {
	engine.Execution
	at int64
}

// mine returns the entry's more, made if it is nil.
func (en *entry) mine() *more {
	if en.more == nil {
		en.more = new(more)
	}
	return en.more
}

// leased reports whether the lease of a token is the last one of the task.
func (en *entry) leased(token engine.Token) bool {
	return en != nil && en.state == engine.Running && en.more.lease == token.Lease
}

// free ends the lease, if there is one.
func (en *entry) free() {
	if en.more != nil {
		en.more.lease = 0
	}
}

// begin begins another run of the task. So many of its attempts have succeeded.
func (en *entry) begin(succeeded int) {
	more := en.mine()
	more.calls += int(en.attempts)
	more.failures += int(en.attempts) - succeeded
	en.attempts = 0
}

func (en *entry) key() engine.Key { return engine.Key{Topic: en.topic.Name, ID: en.id} }

func (en *entry) task() engine.Task {
	task := en.brief()
	task.PayloadBytes = 0
	if en.payload != "" {
		task.Payload = []byte(en.payload)
	}
	return task
}

// brief returns the task with PayloadBytes in place of its payload.
func (en *entry) brief() engine.Task {
	task := engine.Task{
		Topic:    en.topic.Name,
		ID:       en.id,
		Due:      time.UnixMilli(en.due),
		State:    en.state,
		Version:  en.version,
		Created:  time.UnixMilli(en.created),
		Attempts: int(en.attempts),
		Until:    time.UnixMilli(en.at),

		PayloadBytes: len(en.payload),
	}
	var more more
	if en.more != nil {
		more = *en.more
	}
	task.Callback, task.Trace, task.Error, task.Node = more.callback.Clone(), maps.Clone(more.trace), more.failure, more.node
	task.Options = more.options.Clone()
	task.Count(more.calls, more.failures)
	return task
}

// byTime is a heap with the earliest entry on top. After a crowd has left, it has room for at most four times as many
// entries as it has, or for smallHeap.
type byTime []*entry

const smallHeap = 64

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return h[i].at < h[j].at }

func (h byTime) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i+1), int32(j+1)
}

func (h *byTime) Push(en any) {
	*h = append(*h, en.(*entry))
	(*h)[len(*h)-1].index = int32(len(*h))
}

func (h *byTime) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	if cap(*h) > smallHeap && len(*h) < cap(*h)/4 { // a crowd has left
		*h = append(make(byTime, 0, cap(*h)/2), *h...)
	}
	last.index = 0
	return last
}

func (h *byTime) add(en *entry)    { heap.Push(h, en) }
func (h *byTime) remove(en *entry) { heap.Remove(h, int(en.index-1)) }

// maxWait is the longest wait of a timer, in milliseconds. A task with a later time is filed
// again then. A duration can't hold all waits that a task can have.
const maxWait = 30 * 24 * 3600 * 1000

// file makes an entry due at its time. e.mu must be held.
func (e *Engine) file(en *entry) {
	en.leave()
	wait := time.Duration(min(en.at-now(), maxWait)) * time.Millisecond
	switch {
	case wait <= 0:
		ready := en.topic.heapOf(en)
		if ready.add(en); (*ready)[0] == en {
			e.wake(en.topic.Name)
		}
	case en.timer.WasStarted():
		en.timer.Move(wait)
	default:
		_ = e.wheel.Start(&en.timer, en, wait) // it fails if the wheel was stopped
	}
}

// leave takes an entry out of the heap.
func (en *entry) leave() {
	if en.index > 0 {
		en.topic.heapOf(en).remove(en)
	}
}

// waits reports whether the entry waits in the wheel.
func (en *entry) waits() bool {
	return en.index == 0 && (en.state == engine.Pending || en.state == engine.Running)
}

// drop forgets an entry. e.mu must be held.
func (e *Engine) drop(en *entry) {
	en.leave()
	en.timer.Remove()
	en.topic.counts[en.state]--
	en.state = engine.None
	en.topic.tasks.Delete(en.id)
}

// look handles an entry when its timer comes. The timer is not ended: it can be moved.
func (e *Engine) look(_ *wheel.TimerOf[*entry], en *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if en.waits() && !e.closed {
		e.file(en) // again, if it is due later: see maxWait, or the clock was stepped back
	}
}

// wake calls the wakers, each in a goroutine of its own since e.mu is held.
func (e *Engine) wake(topic string) {
	for waker := range e.wakers {
		go waker.wake(topic)
	}
}

// tell tells the wakers of ended leases, each in a goroutine of its own since e.mu is held.
func (e *Engine) tell(ended []engine.Key) {
	if len(ended) == 0 {
		return
	}
	for waker := range e.wakers {
		go func() {
			for _, key := range ended {
				waker.ended(key)
			}
		}()
	}
}
