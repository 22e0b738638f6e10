package timeout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// dispatchMost is the greatest number of tasks that a dispatcher leases by one call.
	dispatchMost = 1000

	// pullTimeout is how long a Pull without Wait waits for a part of the engine, if there are others.
	pullTimeout = 2 * time.Second
)

// dispatcher leases the due tasks of a topic for requests by Pull. However many requests wait, one
// goroutine asks the engine for all of them, and none does while no request waits. It asks one part
// of the engine at a time, but does not wait for one that takes long. When the dispatcher knows of nothing due, it
// sleeps until the next due time, until a wake-up, or for Center.poll.
type dispatcher struct {
	looks // its mu guards the fields below

	topic    Topic
	schedule *engine.Schedule // of Topic.Every; nil without it, or if this node can't read it
	limiter  *rate.Limiter    // nil without Topic.Rate
	waiting  []*request       // the first come first
	open     bool             // whether serve runs
	begun    int              // looks begun so far
	counts   Stats
}

// change gives the dispatcher the current topic.
func (d *dispatcher) change(topic Topic) {
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
		d.dismiss(nil, func(*request) bool { return true })
		signal(d.wakeup)
	}
	d.topic = topic
}

// idle reports whether no request waits.
func (d *dispatcher) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting) == 0
}

// hasLooked reports whether a look at each part has found nothing for a request, as far as the parts answer. d.mu must be
// held.
func (d *dispatcher) hasLooked(r *request, now time.Time) bool {
	return r.looked || !slices.ContainsFunc(d.parts, func(p *part) bool {
		answers := !now.Before(p.until) && (p.calls == 0 || now.Sub(p.begun) < pullTimeout || !d.others(p))
		return !p.idle && p.looked <= r.since && answers
	})
}

// dismissLooked answers the requests that want an answer and have looked. If no part has answered, that is an error. d.mu must
// be held.
func (d *dispatcher) dismissLooked(now time.Time) {
	err := errSilent
	for _, p := range d.parts {
		err = cmp.Or(p.failing, err)
	}
	hasLooked := func(r *request) bool { return r.last && d.hasLooked(r, now) }
	d.dismiss(nil, func(r *request) bool {
		return hasLooked(r) && (r.looked || slices.ContainsFunc(d.parts, func(p *part) bool { return p.looked > r.since }))
	})
	d.dismiss(err, hasLooked)
}

// errSilent is the error of a Pull if no part of the engine answers in time.
var errSilent = fmt.Errorf("timeout: no part of the engine has answered within %v", pullTimeout)

// serve asks the parts of the engine until no request waits.
func (d *dispatcher) serve() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p, ask, wait := d.plan(time.Now())
		switch {
		case p != nil:
			d.c.serving.Go(func() { d.ask(p, ask) })
		case wait == 0:
			return
		default:
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-d.wakeup:
			}
		}
	}
}

// plan returns the next question and the part of the engine to ask, or a positive wait if there is none yet. Without both
// there is no request.
func (d *dispatcher) plan(now time.Time) (asked *part, ask engine.Ask, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renew(nil, now)
	d.dismissLooked(now)
	_, silent := d.forgo(now)
	most := dispatchMost
	if d.limiter != nil {
		if tokens := d.limiter.TokensAt(now); tokens < 1 {
			d.dismiss(nil, func(r *request) bool { return r.last })
			missing := time.Duration((1 - tokens) / d.topic.Rate * float64(time.Second))
			wait = min(max(missing, time.Millisecond), d.c.poll())
		} else if most = min(most, int(tokens)-d.asked()); most < 1 {
			wait = silent
		}
	}
	if len(d.waiting) == 0 {
		d.open = false
		return nil, ask, 0
	}
	if wait > 0 {
		return nil, ask, wait
	}
	wait = d.c.poll()
	for _, p := range d.inTurn() {
		switch {
		case p.idle:
		case p.isSilent(now): // the others go on
			if left := pullTimeout - now.Sub(p.begun); left > 0 {
				wait = min(wait, left)
			}
		case p.calls > 0:
			return nil, ask, min(wait, askTimeout-now.Sub(p.begun))
		case now.Before(p.until):
			wait = min(wait, p.until.Sub(now))
		case now.Before(p.look):
			wait = min(wait, p.look.Sub(now))
		case asked == nil:
			asked = p
		}
	}
	if asked == nil {
		return nil, ask, wait
	}
	ask = engine.Ask{Topic: d.name, Node: d.c.cfg.Node, Lease: d.waiting[0].lease, Part: asked.number}
	for _, r := range d.waiting {
		if r.lease == ask.Lease {
			ask.Max = min(ask.Max+r.most, most)
		}
	}
	d.begun++
	asked.looking = d.begun
	d.beginCall(asked, now)
	asked.asked += ask.Max
	asked.look = now.Add(d.c.poll()) // earlier wakes are answered by this call, later ones still count
	return asked, ask, 0
}

// ask calls a part of the engine and takes its answer. All slots are asked for, whoever owns them: another
// node may have no request.
func (d *dispatcher) ask(p *part, ask engine.Ask) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	batch, err := d.c.engine.Lease(ctx, ask)
	if errors.Is(err, ErrNotFound) {
		d.c.forget(d.name)
	}
	answered := err == nil || errors.Is(err, engine.ErrPartial)
	if answered {
		d.settle(d.take(p, ask, batch, time.Now())) // before others look for what nobody gets here
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endCall(p, ask.Max, err, time.Now())
	if answered {
		return
	}
	p.look = time.Time{}
	if !slices.ContainsFunc(d.parts, func(p *part) bool { return !p.idle && p.until.IsZero() }) || errors.Is(err, ErrNotFound) {
		d.fail(err)
	}
}

// settle tells the engine of outcomes. If it does not answer, the leases end.
func (d *dispatcher) settle(outcomes []engine.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	if _, err := d.c.settle(ctx, d.name, outcomes...); err != nil {
		d.c.cfg.Logger.Warn("timeout: pulled tasks are not settled, so their leases must end", "topic", d.name, "tasks", len(outcomes), "err", err)
	}
}

// giveUp takes the tasks out whose last attempt of a run ended with its lease: see Topic.Every. It
// returns their outcomes. d.mu must be held.
func (d *dispatcher) giveUp(batch *engine.Batch) (ended []engine.Outcome) {
	batch.Leased = slices.DeleteFunc(batch.Leased, func(one Leased) bool {
		outcome, over := expired(d.topic, d.schedule, one, batch.Now)
		if over {
			d.counts.gaveUp(outcome)
			ended = append(ended, outcome)
		}
		return over
	})
	return ended
}

// fail answers all requests with an error. The next request is a reason to ask again at once. d.mu must be held.
func (d *dispatcher) fail(err error) {
	d.dismiss(err, func(*request) bool { return true })
	for _, p := range d.parts {
		p.until = time.Time{}
	}
}

// take hands out the leased tasks. It returns the outcomes of those that nobody gets.
func (d *dispatcher) take(p *part, ask engine.Ask, batch engine.Batch, now time.Time) (rest []engine.Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.clock = clock{batch.Now, now}
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
	found := len(batch.Leased) > 0
	rest = append(rest, unbegun(d.deal(batch.Leased, ask.Lease, p.looking))...)
	switch {
	case full:
		d.lookAt(p, now)
	case !batch.Next.IsZero():
		wait := batch.Next.Sub(batch.Now)
		if !found {
			wait = max(wait, minPoll)
		}
		d.lookAt(p, now.Add(wait))
	}
	if more := found && !now.Before(p.look); !more && len(rest) == 0 {
		p.looked = p.looking
	}
	return rest
}

// count counts a leased task. d.mu must be held.
func (d *dispatcher) count(one *Leased, now time.Time) {
	d.counts.Pulled++
	if one.Again {
		d.counts.Again++
	}
	if one.Attempts == 1 {
		d.counts.began(now.Sub(one.Due))
	}
}

// deal deals tasks to the requests for leases of that length, one to each in turn, and answers
// them. Requests that came after the question began get what the others leave. deal returns the rest. d.mu
// must be held.
func (d *dispatcher) deal(leased []Leased, lease time.Duration, number int) (rest []Leased) {
	for _, late := range []bool{false, true} {
		for dealt := true; dealt && len(leased) > 0; {
			dealt = false
			for _, r := range d.waiting {
				if len(leased) > 0 && (r.since >= number) == late && r.lease == lease && !r.full() {
					r.tasks, r.bytes = append(r.tasks, leased[0]), r.bytes+len(leased[0].Payload)
					leased, dealt = leased[1:], true
				}
			}
		}
	}
	d.dismiss(nil, func(r *request) bool { return len(r.tasks) > 0 })
	return leased
}

// dismiss answers the matching requests, with their tasks if any, or with an error. d.mu must be held.
func (d *dispatcher) dismiss(err error, matches func(*request) bool) {
	d.waiting = slices.DeleteFunc(d.waiting, func(r *request) bool {
		if !matches(r) {
			return false
		}
		r.got <- pulled{r.tasks, err}
		return true
	})
}

// stats returns the counts.
func (d *dispatcher) stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.counts
	s.Topic, s.Slots, s.Waiting = d.name, []int{}, len(d.waiting)
	return s
}
