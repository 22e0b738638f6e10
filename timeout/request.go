package timeout

import (
	"context"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// request is a call of Pull that waits.
type request struct {
	most  int
	lease time.Duration
	got   chan struct{} // closed when it has its tasks or an error

	// dispatcher.mu guards the fields below.
	last  bool // whether it wants an answer after the next look at each part, even an empty one
	since int  // how many looks had begun when it came; negative if those say that nothing is due
	tasks []Leased
	bytes int // of their payloads
	err   error
}

func (r *request) full() bool { return len(r.tasks) == r.most || r.bytes > engine.MaxPageBytes }

// join adds a request.
func (d *dispatcher) join(r *request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, r)
	now := time.Now()
	d.renew(nil, now)
	r.since = d.begun
	if !d.open || r.last {
		d.lookNow()
	} else if !slices.ContainsFunc(d.parts, func(p *part) bool { return p.calls+len(p.outcomes) > 0 || !now.Before(p.look) }) {
		r.since = -1 // all that is known holds for it
	}
	d.start()
	signal(d.wakeup)
}

// await returns the answer to a request, or no tasks when wait is over.
func (d *dispatcher) await(ctx, pulling context.Context, r *request, wait time.Duration) ([]Leased, error) {
	var over <-chan time.Time
	if wait > 0 { // else the next looks are its last ones anyway
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-r.got:
			if err := context.Cause(ctx); err != nil && len(r.tasks) > 0 {
				d.mu.Lock()
				d.handBack(r.tasks)
				d.mu.Unlock()
				return nil, err
			}
			return r.tasks, r.err
		case <-over:
			if d.leave(r, true) {
				return nil, nil
			}
		case <-ctx.Done():
			if d.leave(r, false) {
				return nil, context.Cause(ctx)
			}
		case <-pulling.Done():
			if d.leave(r, false) {
				return nil, context.Cause(pulling)
			}
		}
	}
}

// leave ends a request. It reports false if the answer is there, or if the next look is to give it: the wait is over, and no look
// has found nothing for it yet.
func (d *dispatcher) leave(r *request, over bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if over && !d.hasLooked(r, time.Now()) {
		r.last = true
		d.lookNow()
		return false
	}
	i := slices.Index(d.waiting, r)
	if i < 0 {
		return false
	}
	d.waiting = slices.Delete(d.waiting, i, i+1)
	if len(d.waiting) == 0 {
		signal(d.wakeup)
	}
	return true
}
