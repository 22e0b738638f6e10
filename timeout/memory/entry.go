package memory

import (
	"container/heap"
	"maps"
	"math"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// entry is a task, in 104 bytes.
type entry struct {
	topic    *topic
	heap     *byTime // of its slot if it is Pending or Running, or one of its topic
	id       string
	payload  string
	due      int64 // action time
	at       int64 // next due time, end of the lease, or time of ending
	version  int64
	created  int64
	attempts int32
	index    int32 // in the heap
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
	h[i].index, h[j].index = int32(i), int32(j)
}

func (h *byTime) Push(en any) {
	en.(*entry).heap, en.(*entry).index = h, int32(len(*h))
	*h = append(*h, en.(*entry))
}

func (h *byTime) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	if cap(*h) > smallHeap && len(*h) < cap(*h)/4 { // a crowd has left
		*h = append(make(byTime, 0, cap(*h)/2), *h...)
	}
	return last
}

// first returns the earliest time.
func (h byTime) first() int64 {
	if len(h) == 0 {
		return math.MaxInt64
	}
	return h[0].at
}

// until calls visit for the entries up to a time, among those from place i down.
func (h byTime) until(at int64, i int, visit func(*entry)) {
	if i < len(h) && h[i].at <= at {
		visit(h[i])
		h.until(at, 2*i+1, visit)
		h.until(at, 2*i+2, visit)
	}
}

// enter gives an entry its state and its time. e.mu must be held.
func (e *Engine) enter(en *entry, state engine.State, at int64) {
	t := en.topic
	slot := t.slotOf(en)
	first, into := slot.first(), slot
	switch state {
	case engine.Dead:
		into = &t.dead
	case engine.Done, engine.Removed:
		into = &t.ended
	}
	en.leave()
	en.state, en.at = state, at
	t.counts[state]++
	heap.Push(into, en)
	if slot.first() < first {
		e.wake(t.Name)
	}
}

// leave takes an entry out of its heap and of the counts, unless it is new.
func (en *entry) leave() {
	if en.heap != nil {
		heap.Remove(en.heap, int(en.index))
		en.topic.counts[en.state]--
	}
}

// drop forgets an entry. e.mu must be held.
func (e *Engine) drop(en *entry) {
	en.leave()
	en.topic.tasks.Delete(en.id)
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
