package memory

import (
	"container/heap"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// entry is a task. One that is Pending or Running has a timer in the wheel, or is in the
// heap of its slot.
type entry struct {
	timeout.Task
	topic *topic
	timer *wheel.TimerOf[*entry]
	at    int64 // action time, end of the lease, or time of ending
	lease int64 // the last lease's number
	index int   // in the heap, counted from 1; 0 where it is in none
	log   []timeout.Execution
}

// byTime is a heap with what is due first on top.
type byTime []*entry

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return h[i].at < h[j].at }

func (h byTime) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *byTime) Push(en any) {
	*h = append(*h, en.(*entry))
	(*h)[len(*h)-1].index = len(*h)
}

func (h *byTime) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	last.index = 0
	return last
}

func (h *byTime) add(en *entry)    { heap.Push(h, en) }
func (h *byTime) remove(en *entry) { heap.Remove(h, en.index-1) }

// maxWait is for how long, in milliseconds, a timer is filed: a task that is due later is
// filed again then. A duration can't have all times that a task can have.
const maxWait = 30 * 24 * 3600 * 1000

// file has an entry be due at its time. e.mu must be held.
func (e *Engine) file(t *topic, en *entry) {
	wait := time.Duration(min(en.at-now(), maxWait)) * time.Millisecond
	if wait > 0 {
		if en.index > 0 {
			t.heapOf(en).remove(en)
		}
		if en.timer == nil || !en.timer.Move(wait) {
			en.timer, _ = e.wheel.Add(en, wait) // it fails where the wheel was stopped
		}
		return
	}
	e.unfile(t, en)
	t.heapOf(en).add(en)
	e.wake(t.Name)
}

// unfile has an entry not become due. e.mu must be held.
func (e *Engine) unfile(t *topic, en *entry) {
	if en.timer != nil {
		en.timer.Remove()
		en.timer = nil
	}
	if en.index > 0 {
		t.heapOf(en).remove(en)
	}
}

// due takes what the wheel hands over.
func (e *Engine) due(timer *wheel.TimerOf[*entry], en *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ended := timer.Expire(); !ended || en.timer != timer || e.closed {
		return
	}
	en.timer = nil
	e.file(en.topic, en) // again, where it is due later: see maxWait, or the clock was stepped back
}

// wake calls those who want to know, without the lock that must be held.
func (e *Engine) wake(topic string) {
	for waker := range e.wakers {
		go (*waker)(topic)
	}
}
