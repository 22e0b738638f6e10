package timeout

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// deskMost is the greatest number of tasks that a desk leases by one call.
const deskMost = 1000

// desk leases the due tasks of a topic for requests by Pull. However many requests wait, one
// goroutine asks the engine for all of them, and none does while no request waits. When the desk
// knows of nothing due, it sleeps until the next due time, until the bell, or for Center.poll.
type desk struct {
	c    *Center
	name string

	looks // its mu guards the fields below

	topic    Topic
	schedule *engine.Schedule // of Topic.Every; nil without it, or if this node can't read it
	limiter  *rate.Limiter    // nil without Topic.Rate
	waiting  []*request       // the first come first
	open     bool             // whether serve runs
	counts   Stats
}

// request is a call of Pull that waits.
type request struct {
	most  int
	lease time.Duration
	got   chan pulled // gets one element

	// desk.mu guards the fields below.
	last   bool // whether it wants an answer after the next look, even an empty one
	asked  bool // whether the present look is for it, too
	looked bool // whether a look has found nothing for it
	tasks  []Leased
	bytes  int // of their payloads
}

// pulled is the answer to a request.
type pulled struct {
	tasks []Leased
	err   error
}

func (r *request) full() bool { return len(r.tasks) == r.most || r.bytes > engine.MaxPageBytes }

// change gives the desk the current topic.
func (d *desk) change(topic Topic) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if topic.Rate != d.topic.Rate {
		d.limiter = nil
		if topic.Rate > 0 {
			d.limiter = rate.NewLimiter(rate.Limit(topic.Rate), burstOf(topic.Rate))
		}
	}
	if topic.Every != d.topic.Every {
		var err error
		if d.schedule, err = scheduleOf(topic); err != nil {
			d.schedule = nil
		}
	}
	if topic.Paused != d.topic.Paused {
		d.lookNow()
	}
	if !topic.Pull { // another call is refused
		d.dismiss(func(*request) bool { return true })
		ring(d.bell)
	}
	d.topic = topic
}

// join adds a request. It reports whether serve must be started.
func (d *desk) join(r *request) (start bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, r)
	switch {
	case !d.open || r.last:
		d.lookNow()
	default:
		r.looked = time.Now().Before(d.look)
	}
	start = !d.open
	d.open = true
	return start
}

// await returns the answer to a request, or no tasks when wait is over.
func (d *desk) await(ctx, pulling context.Context, r *request, wait time.Duration) ([]Leased, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case got := <-r.got:
			if err := context.Cause(ctx); err != nil && len(got.tasks) > 0 {
				d.settle(unbegun(got.tasks))
				return nil, err
			}
			return got.tasks, got.err
		case <-timer.C:
			if d.hurry(r) {
				return nil, nil
			}
		case <-ctx.Done():
			if d.quit(r) {
				return nil, context.Cause(ctx)
			}
		case <-pulling.Done():
			if d.quit(r) {
				return nil, context.Cause(pulling)
			}
		}
	}
}

// hurry ends a request if a look has found nothing for it. Otherwise the next look does.
func (d *desk) hurry(r *request) (ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.looked {
		return d.remove(r)
	}
	r.last = true
	d.lookNow()
	return false
}

// quit ends a request. It reports false if the answer is there.
func (d *desk) quit(r *request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remove(r)
}

// remove takes a request out, and reports whether it was there. d.mu must be held.
func (d *desk) remove(r *request) bool {
	i := slices.Index(d.waiting, r)
	if i < 0 {
		return false
	}
	d.waiting = slices.Delete(d.waiting, i, i+1)
	if len(d.waiting) == 0 {
		ring(d.bell)
	}
	return true
}

// idle reports whether no request waits.
func (d *desk) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting) == 0
}

// serve asks the engine until no request waits.
func (d *desk) serve() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		ask, wait, open := d.plan(time.Now())
		if !open {
			return
		}
		if wait == 0 {
			d.ask(ask)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-d.bell:
		}
	}
}

// plan returns the next question to the engine, or a positive wait if there is none yet.
func (d *desk) plan(now time.Time) (ask engine.Ask, wait time.Duration, open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	most := deskMost
	if d.limiter != nil {
		if most = min(most, int(d.limiter.TokensAt(now))); most < 1 {
			d.dismiss(func(r *request) bool { return r.last })
			missing := time.Duration((1 - d.limiter.TokensAt(now)) / d.topic.Rate * float64(time.Second))
			wait = min(max(missing, time.Millisecond), d.c.poll())
		}
	}
	if len(d.waiting) == 0 {
		d.open = false
		return ask, 0, false
	}
	if wait == 0 {
		wait = max(d.look.Sub(now), 0)
	}
	if wait > 0 {
		return ask, wait, true
	}
	ask = engine.Ask{Topic: d.name, Node: d.c.cfg.Node, Lease: d.waiting[0].lease}
	for _, r := range d.waiting {
		r.asked = true
		if r.lease == ask.Lease {
			ask.Max = min(ask.Max+r.most, most)
		}
	}
	d.look = now.Add(d.c.poll()) // earlier hints are answered by this call, later ones still count
	return ask, 0, true
}

// ask calls the engine and takes its answer. All slots are asked for, whoever owns them: another
// node may have no request.
func (d *desk) ask(ask engine.Ask) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	batch, err := d.c.engine.Expire(ctx, ask)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			d.c.forget(d.name)
		}
		d.fail(err)
		return
	}
	d.settle(d.take(ask, batch, time.Now()))
}

// settle tells the engine of outcomes. If it does not answer, the leases end.
func (d *desk) settle(outcomes []engine.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	if err := d.c.settle(ctx, d.name, outcomes); err != nil {
		d.c.cfg.Logger.Warn("timeout: pulled tasks are not settled, so their leases must end", "topic", d.name, "tasks", len(outcomes), "err", err)
	}
}

// giveUp takes the tasks out whose last attempt of a run ended with its lease: see Topic.Every. It
// returns their outcomes. d.mu must be held.
func (d *desk) giveUp(batch *engine.Batch) (ended []engine.Outcome) {
	batch.Leased = slices.DeleteFunc(batch.Leased, func(one Leased) bool {
		outcome, over := outlived(d.topic, d.schedule, one, batch.Now)
		if over {
			d.counts.gaveUp(outcome)
			ended = append(ended, outcome)
		}
		return over
	})
	return ended
}

// fail answers all requests with an error.
func (d *desk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.waiting {
		r.got <- pulled{err: err}
	}
	d.waiting = nil
}

// take hands out the leased tasks. It returns the outcomes of those that nobody gets.
func (d *desk) take(ask engine.Ask, batch engine.Batch, now time.Time) (rest []engine.Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock = clock{batch.Now, now}
	d.counts.Dead += uint64(len(batch.Died))
	if d.limiter != nil {
		d.limiter.ReserveN(now, len(batch.Leased))
	}
	full := len(batch.Leased) == ask.Max
	rest = d.giveUp(&batch)
	for i := range batch.Leased {
		one := &batch.Leased[i]
		one.Token.Begun = batch.Now.UnixMilli()
		one.Token = prove(one.Token, d.c.cfg.FeedbackKeys)
		d.count(one, batch.Now)
	}
	rest = append(rest, unbegun(d.deal(batch.Leased, ask.Lease))...)
	switch {
	case full:
		d.lookAt(now)
	case !batch.Next.IsZero():
		wait := batch.Next.Sub(batch.Now)
		if len(batch.Leased) == 0 {
			wait = max(wait, minPoll)
		}
		d.lookAt(now.Add(wait))
	}
	if len(batch.Leased) > 0 && !now.Before(d.look) {
		return rest // there is more at once
	}
	for _, r := range d.waiting {
		r.looked = r.looked || r.asked
	}
	d.dismiss(func(r *request) bool { return r.last && r.looked })
	return rest
}

// count counts a leased task. d.mu must be held.
func (d *desk) count(one *Leased, now time.Time) {
	d.counts.Pulled++
	if one.Again {
		d.counts.Again++
	}
	if one.Attempts != 1 {
		return
	}
	if late := now.Sub(one.Due); late < 0 {
		d.counts.Early++
	} else {
		d.counts.Late.Observe(late)
	}
}

// deal deals tasks to the requests for leases of that length, one to each in turn, and answers
// them. Requests that came after the question get what the others leave. deal returns the rest. d.mu
// must be held.
func (d *desk) deal(leased []Leased, lease time.Duration) (rest []Leased) {
	for _, asked := range []bool{true, false} {
		for dealt := true; dealt && len(leased) > 0; {
			dealt = false
			for _, r := range d.waiting {
				if len(leased) > 0 && r.asked == asked && r.lease == lease && !r.full() {
					r.tasks, r.bytes = append(r.tasks, leased[0]), r.bytes+len(leased[0].Payload)
					leased, dealt = leased[1:], true
				}
			}
		}
	}
	d.dismiss(func(r *request) bool { return len(r.tasks) > 0 })
	return leased
}

// dismiss answers the matching requests, with their tasks if any. d.mu must be held.
func (d *desk) dismiss(matches func(*request) bool) {
	d.waiting = slices.DeleteFunc(d.waiting, func(r *request) bool {
		if !matches(r) {
			return false
		}
		r.got <- pulled{tasks: r.tasks}
		return true
	})
}

// stats returns the counts.
func (d *desk) stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.counts
	s.Topic, s.Slots, s.Waiting = d.name, []int{}, len(d.waiting)
	return s
}
