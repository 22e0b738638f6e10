package timeout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// dispatchMost is the greatest number of tasks that a dispatcher leases by one call.
	dispatchMost = 1000

	// pullTimeout is how long a Pull without Wait waits for a part of the engine, if there are others.
	pullTimeout = 2 * time.Second
)

// dispatcher leases the due tasks of a topic for requests by Pull. However many requests wait, one goroutine plans the
// questions for all of them, and none does while there is no request. It asks one part of the engine at a time, but does not
// wait for one that takes long.
type dispatcher struct {
	leaser // its mu guards the fields below

	waiting []*request // the first come first
	open    bool       // whether serve runs
	begun   int        // looks begun so far
	more    int        // tasks to ask for at least, since all of the last batch were given up
}

// change gives the dispatcher the current topic.
func (d *dispatcher) change(topic Topic) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.adopt(topic)
	if d.unread != nil { // the task is leased all the same
		d.schedule = nil
	}
	_, perSecond := allowed(topic, nil)
	d.setRate(perSecond, time.Now())
	if !topic.Pull { // another call is refused
		d.dismiss(nil, func(*request) bool { return true })
		signal(d.wakeup)
	}
}

// hasLooked reports whether a look at each part has found nothing for a request, as far as the parts answer. d.mu must be
// held.
func (d *dispatcher) hasLooked(r *request, now time.Time) bool {
	return !slices.ContainsFunc(d.parts, func(p *part) bool {
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
		return hasLooked(r) && slices.ContainsFunc(d.parts, func(p *part) bool { return p.looked > r.since })
	})
	d.dismiss(err, hasLooked)
}

// errSilent is the error of a Pull if no part of the engine answers in time.
var errSilent = fmt.Errorf("timeout: no part of the engine has answered within %v", pullTimeout)

// prepare answers the requests that want no more, and returns the lease of the first one.
func (d *dispatcher) prepare(now time.Time) (ask engine.Ask, longest time.Duration) {
	d.renew(nil, now)
	d.dismissLooked(now)
	longest = d.forgo(now)
	if d.limiter != nil && d.limiter.TokensAt(now) < 1 {
		d.dismiss(nil, func(r *request) bool { return r.last })
	}
	if len(d.waiting) > 0 {
		ask.Lease = d.waiting[0].lease
	} else if !slices.ContainsFunc(d.parts, func(p *part) bool { return p.calls+len(p.outcomes) > 0 }) {
		d.open = false
		return ask, 0
	}
	for _, p := range d.parts { // for dismissLooked
		if left := pullTimeout - now.Sub(p.begun); p.calls > 0 && left > 0 {
			longest = min(longest, left)
		}
	}
	return ask, d.refill(now, longest)
}

// room returns what the requests for leases of the first one's length want, unless another part is asked for it.
func (d *dispatcher) room(p *part, now time.Time) (tasks int, overdue time.Duration) {
	if p.idle || d.asked() > 0 {
		return 0, 0
	}
	for _, r := range d.waiting {
		if r.lease == d.waiting[0].lease {
			tasks += r.most
		}
	}
	if tasks > 0 {
		tasks = max(tasks, d.more)
	}
	return max(min(tasks, dispatchMost, d.tokens(now)), 0), 0
}

// begins numbers a look. It is at all slots, whoever owns them: another node may have no request.
func (d *dispatcher) begins(p *part, _ *engine.Ask, _ time.Time) {
	d.begun++
	p.looking = d.begun
}

// answer hands out the leased tasks, and hands the rest back.
func (d *dispatcher) answer(p *part, ask engine.Ask, batch engine.Batch, err error, _ time.Time) {
	if errors.Is(err, ErrNotFound) {
		d.c.forget(d.name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if !d.endCall(p, ask, batch, err, now) {
		d.failed(p, err)
		return
	}
	if ask.Max == 0 {
		return
	}
	leased := batch.Leased[:0]
	for i := range batch.Leased {
		one := &batch.Leased[i]
		if d.givesUp(one, batch.Now) {
			continue
		}
		if d.counts.Pulled++; one.Attempts == 1 {
			d.counts.began(batch.Now.Sub(one.Due))
		}
		one.Token.Begun = batch.Now.UnixMilli()
		one.Token = prove(one.Token, d.c.cfg.FeedbackKeys)
		leased = append(leased, *one)
	}
	if d.more = 0; len(leased) == 0 && len(batch.Leased) > 0 {
		d.more = 2 * ask.Max
	}
	d.handBack(d.deal(leased, ask.Lease, p.looking))
	if more := len(leased) > 0 && !now.Before(p.look); !more && len(p.outcomes) == 0 {
		p.looked = p.looking
	}
}

// handBack releases tasks without a taker. The next look is after that. d.mu must be held.
func (d *dispatcher) handBack(rest []Leased) {
	for _, outcome := range unbegun(rest) {
		d.settle(outcome)
	}
	d.start()
}

// start makes the dispatcher serve. d.mu must be held.
func (d *dispatcher) start() {
	if !d.open {
		d.open = true
		d.asking.Go(d.serve)
	}
}

// failed takes the error of a part. If it does not settle outcomes, the leases end. If no part answers, all requests have the
// error, and the next one is a reason to ask again at once. d.mu must be held.
func (d *dispatcher) failed(p *part, err error) {
	if len(p.outcomes) > 0 && !errors.Is(err, ErrNotFound) {
		d.logger(p).Warn("timeout: pulled tasks are not settled, so their leases must end", "tasks", len(p.outcomes), "err", err)
	}
	p.outcomes = nil
	if !errors.Is(err, ErrNotFound) && slices.ContainsFunc(d.parts, func(p *part) bool { return !p.idle && p.until.IsZero() }) {
		return
	}
	d.dismiss(err, func(*request) bool { return true })
	for _, p := range d.parts {
		p.until = time.Time{}
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
		r.err = err
		close(r.got)
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
