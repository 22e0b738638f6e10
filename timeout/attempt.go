package timeout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// attempt runs a task: by its own callback, the handler, or the topic's callback.
func (w *worker) attempt(a *attempt, topic Topic, handler Handler) {
	defer a.cancel(nil)
	if late := tooLate(a.Task, a.now.Add(time.Since(a.queued))); late != nil {
		w.end(a, topic, late)
		return
	}
	ctx := a.ctx
	if a.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.limit, ErrTimeout)
		defer cancel()
	}
	call := a.Callback
	if topic.Pull { // nobody makes it
		call = nil
	}
	if call == nil && handler == nil {
		call = topic.Callback
	}
	if call == nil {
		if handler == nil {
			w.strand(a)
			return
		}
		w.mu.Lock()
		w.made(a)
		w.mu.Unlock()
		w.end(a, topic, protect(func() error { return handler(ctx, a.Task) }))
		return
	}
	w.call(ctx, a, topic, *call)
}

// made counts an attempt that is made, and not handed back. w.mu must be held.
func (w *worker) made(a *attempt) {
	if !a.due.IsZero() {
		w.counts.began(a.begun.Sub(a.due))
	}
}

// call makes a callback, unless the circuit of its target is open.
func (w *worker) call(ctx context.Context, a *attempt, topic Topic, call Callback) {
	calls := w.c.cfg.Callers[call.Kind]
	if calls == nil {
		w.strand(a)
		return
	}
	if err := protect(func() error { return calls.Check(call) }); err != nil {
		w.end(a, topic, Permanent(err))
		return
	}
	name := w.target(&call)
	if a.Callback == nil {
		w.learn(name, call)
	}
	circuit, caller := w.c.circuits.of(name), w.caller(&call)
	visit := circuit.enter(caller)
	if visit == nil {
		w.refuse(a, circuit, caller)
		return
	}
	w.mu.Lock()
	a.visit = visit
	w.made(a)
	w.mu.Unlock()
	if ctx.Err() != nil { // it was given up, perhaps before it had its visit
		visit.leave(errNoCall)
		w.end(a, topic, context.Cause(ctx))
		return
	}
	if call.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, call.Timeout, ErrTimeout)
		defer cancel()
	}
	attempt := w.c.wrapped(func(ctx context.Context, task Task) error { return calls.Call(ctx, task, call) })
	err := protect(func() error { return attempt(ctx, a.Task) })
	switch cause := context.Cause(ctx); {
	case !Failed(err), errors.Is(err, ErrAnswered):
		visit.leave(nil)
	case errors.Is(cause, ErrLeaseLost), errors.Is(cause, ErrStopping), errors.Is(err, ErrArgument):
		visit.leave(errNoCall)
	default:
		visit.leave(err)
	}
	w.end(a, topic, err)
}

// judge tells the circuit of a call that is not waited for. w.mu must be held.
func (a *attempt) judge(failure error) {
	if a.visit != nil {
		a.visit.judge(failure)
	}
}

// target returns the name of the target's circuit, after the kind of the callback.
func (w *worker) target(call *Callback) string {
	name := call.Kind
	if caller := w.c.cfg.Callers[call.Kind]; caller != nil {
		_ = protect(func() error { name += " " + caller.Circuit(*call); return nil })
	}
	return name
}

// targets returns the targets of tasks with callbacks of their own, and empty names for the
// others.
func (w *worker) targets(leased []engine.Leased) []string {
	names := make([]string, len(leased))
	for i := range leased {
		if call := leased[i].Callback; call != nil {
			names[i] = w.target(call)
		}
	}
	return names
}

// protect turns a panic into an error.
func protect(f func() error) (err error) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("timeout: handler panicked: %v\n%s", p, debug.Stack())
		} else if !returned {
			err = errors.New("timeout: handler called runtime.Goexit")
		}
	}()
	err = f()
	returned = true
	return err
}

// end settles an attempt with the error of its handler.
func (w *worker) end(a *attempt, topic Topic, err error) {
	took := time.Since(a.begun)
	accepted := isAccepted(err)
	if accepted {
		err = nil
		w.mu.Lock()
		a.accepted = true // first: see extend
		w.mu.Unlock()
		w.prolong(a)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.finish(a) {
		return
	}
	w.counts.Took.Observe(took)
	if accepted {
		w.counts.Accepted++
		return // its lease goes on without the handler
	}
	outcome := w.conclude(a, topic, err)
	outcome.Took = took
	switch {
	case err == nil && a.own.Settled():
		w.counts.Done++
		if p := w.partOf(a.Key()); outcome.NewRun {
			w.lookAt(p, p.clock.at(outcome.Due))
		}
		return
	case err == nil || outcome.NewRun && outcome.Error == "":
		w.counts.Done++
	case outcome.Release:
		w.counts.Postponed++
	case w.stopping && errors.Is(context.Cause(a.ctx), ErrStopping):
		w.counts.Returned++
		outcome.As, outcome.Due, outcome.After, outcome.Release, outcome.NewRun = Pending, time.Time{}, 0, true, false
	default:
		w.counts.Failed++
	}
	w.settle(outcome)
}

// conclude returns the outcome of an attempt. w.mu must be held.
func (w *worker) conclude(a *attempt, topic Topic, failure error) engine.Outcome {
	now := time.Now()
	if failure == nil && w.unread != nil {
		failure = w.unread
	}
	outcome := conclude(topic, w.schedule, a.Task, a.now.Add(now.Sub(a.queued)), failure)
	outcome.Token, outcome.Started = a.Token, a.begun
	if !a.begun.IsZero() {
		outcome.Took = now.Sub(a.begun)
	}
	return outcome
}

// prolong extends the leases of accepted tasks. If that fails, they end at their old times.
func (w *worker) prolong(accepted ...*attempt) {
	w.mu.Lock()
	topic := w.topic
	w.mu.Unlock()
	byLease := make(map[time.Duration][]*attempt, 1)
	for _, a := range accepted {
		lease := max(topic.Lease, timeLimit(topic.With(a.Options)))
		byLease[lease] = append(byLease[lease], a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	for lease, attempts := range byLease {
		if _, err := w.c.engine.Extend(ctx, tokensOf(attempts), lease); err != nil {
			w.c.cfg.Logger.Warn("timeout: leases of accepted tasks are not extended", "topic", w.name, "leases", len(attempts), "err", err)
		}
	}
}

// timeLimit returns how long a handler may take. Zero means for ever.
func timeLimit(topic Topic) time.Duration {
	return max(cmp.Or(topic.Timeout, max(engine.DefaultTimeout, topic.Lease)), 0)
}
