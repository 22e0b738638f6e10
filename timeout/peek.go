package timeout

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// A worker looks every poll, since nobody may have told it of a task. One peek at the topics of all
// idle workers does instead, a little earlier. What it finds is for the worker's own look.

// ownLook is the longest time without a look by the worker itself, should a peek ever miss something.
const ownLook = 5 * time.Minute

// peekShare of the poll passes before a peek. It is less than what passes before a worker's own look.
const peekShare = 0.9

// peek peeks for idle workers until ctx ends.
func (c *Center) peek(ctx context.Context) {
	peeker, ok := c.engine.(engine.Peeker)
	for ok {
		select {
		case <-time.After(time.Duration(peekShare * float64(c.poll()))):
			c.peekOnce(ctx, peeker)
		case <-ctx.Done():
			return
		}
	}
}

// peekOnce peeks for all workers idle now. After an error they look by themselves.
func (c *Center) peekOnce(ctx context.Context, peeker engine.Peeker) {
	began := time.Now()
	var idle []*worker
	var peeks []engine.Peek
	c.mu.Lock()
	for _, w := range c.workers {
		if slots, ok := w.idle(began); ok {
			idle, peeks = append(idle, w), append(peeks, engine.Peek{Topic: w.name, Slots: slots})
		}
	}
	c.mu.Unlock()
	if len(idle) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	waits, err := peeker.Peek(ctx, peeks)
	if err != nil {
		return
	}
	for i, w := range idle {
		w.peeked(began, waits[i])
	}
}

// idle returns the slots of a worker that only waits for its next look. It reports false for any other.
func (w *worker) idle(now time.Time) (slots []int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok = w.look.Equal(w.net) && now.Before(w.own) && w.asked == 0 && len(w.outcomes) == 0 && !w.full && w.room(now) > 0
	return w.wanted(now), ok
}

// peeked puts the next look off, or advances it to when a task is due. began is before the peek.
func (w *worker) peeked(began time.Time, wait time.Duration) {
	poll := w.c.poll()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.look.Equal(w.net) && began.Add(poll).After(w.net) {
		w.net = began.Add(poll)
		w.look = w.net
	}
	w.lookAt(began.Add(max(wait, 0)))
}
