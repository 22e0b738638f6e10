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
	var parts []*part
	var peeks []engine.Peek
	c.mu.Lock()
	for _, w := range c.workers {
		slots, of := w.idleParts(began)
		for _, p := range of {
			idle, parts, peeks = append(idle, w), append(parts, p), append(peeks, engine.Peek{Topic: w.name, Slots: slots, Part: p.number})
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
		w.peeked(parts[i], began, waits[i])
	}
}

// idleParts returns the slots of a worker, and the parts of the engine for which it only waits for its next look.
func (w *worker) idleParts(now time.Time) (slots []int, idle []*part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		tasks, overdue := w.room(p, now)
		if p.look.Equal(p.net) && now.Before(p.own) && p.calls == 0 && len(p.outcomes)+len(p.untold) == 0 && !p.full && tasks > 0 && overdue == 0 {
			idle = append(idle, p)
		}
	}
	return w.wanted(now), idle
}

// peeked puts the next look off, or advances it to when a task is due. began is before the peek.
func (w *worker) peeked(p *part, began time.Time, wait time.Duration) {
	poll := w.c.poll()
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.look.Equal(p.net) && began.Add(poll).After(p.net) {
		p.net = began.Add(poll)
		p.look = p.net
	}
	w.lookAt(p, began.Add(max(wait, 0)))
}
