package timeoutclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// ErrLeaseLost is the cause of the end of a context in Work: the task is no longer this program's.
var ErrLeaseLost = errors.New("timeoutclient: lease lost")

const (
	// workPause is the wait of Work after a failed call.
	workPause = time.Second

	// lastAnswer is how long Work waits for an answer at the end of its context: it may have tasks. restOfAnswer
	// is how much longer it waits for the rest of an answer that has begun.
	lastAnswer   = 500 * time.Millisecond
	restOfAnswer = 5 * time.Second

	// maxHandBack is how long the server may be away when Work hands back the tasks of that answer.
	maxHandBack = 5 * time.Second

	// maxPull is the server's limit for Pull.Max.
	maxPull = 100
)

// Work pulls the due tasks of a topic, and calls do for up to pull.Max of them at the same time, until
// ctx ends. It extends their leases meanwhile, and tells the outcomes. After a temporary failure of the
// server it goes on. Pull.Wait does not count, and Pull.Max may be more than 100.
//
// The context of do ends with the lease, and with ctx. After the end of ctx do should return soon, with
// Outcome{Returned: true} if it has had no effects. Work waits for it, and returns nil. An answer of the
// server may be on its way then: Work waits half a second for it to begin and five more for the rest, and
// hands back its tasks. The tasks of a later answer run again when their leases end.
//
// Before the end of ctx, Work returns a permanent error only: a wrong token, a missing topic, a topic
// without Pull, a number out of range.
func (c *Client) Work(ctx context.Context, pull Pull, do func(context.Context, Leased) Outcome) error {
	if pull.Max < 0 {
		return fmt.Errorf("%w: Max %d of a pull, must not be negative", engine.ErrArgument, pull.Max)
	}
	pull.Wait = MaxWait
	places := semaphore.NewWeighted(int64(cmp.Or(pull.Max, 1))) // one for each task
	var working sync.WaitGroup
	defer working.Wait()
	pulling, done := endingLater(ctx)
	defer done()
	for {
		if pull.Max = take(ctx, places); pull.Max == 0 {
			return nil
		}
		asked := time.Now()
		leased, err := c.Pull(pulling, pull)
		places.Release(int64(pull.Max - len(leased)))
		for _, one := range leased {
			working.Go(func() {
				defer places.Release(1)
				if ctx.Err() != nil {
					c.tell(ctx, one, Outcome{Returned: true}, min(one.Lease, maxHandBack))
					return
				}
				c.work(ctx, one, pull.Lease, do)
			})
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case lasting(err):
			return err
		case len(leased) == 0 && time.Since(asked) < workPause: // no server has waited
			rest(ctx, workPause)
		}
	}
}

// endingLater returns a context for pulls one after the other. It ends lastAnswer after ctx, or restOfAnswer later
// if an answer has begun, or with done.
func endingLater(ctx context.Context) (later context.Context, done func()) {
	var begun atomic.Bool // the last answer
	later, cancel := context.WithCancel(httptrace.WithClientTrace(context.WithoutCancel(ctx), &httptrace.ClientTrace{
		GetConn:              func(string) { begun.Store(false) },
		GotFirstResponseByte: func() { begun.Store(true) },
	}))
	stop := context.AfterFunc(ctx, func() {
		rest(later, lastAnswer)
		if begun.Load() {
			rest(later, restOfAnswer)
		}
		cancel()
	})
	return later, func() {
		stop()
		cancel()
	}
}

// take waits for a free place, and takes all free ones, up to maxPull. It returns zero when ctx has
// ended.
func take(ctx context.Context, places *semaphore.Weighted) (n int) {
	if places.Acquire(ctx, 1) != nil {
		return 0
	}
	for n = 1; n < maxPull && places.TryAcquire(1); {
		n++
	}
	return n
}

// work does one task. lease is the one that was asked for: zero is the topic's.
func (c *Client) work(ctx context.Context, one Leased, lease time.Duration, do func(context.Context, Leased) Outcome) {
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	var longest time.Duration
	keeping.Go(func() { longest = c.keep(running, one, lease, cancel) })
	outcome := do(working, one)
	end()
	keeping.Wait()
	c.tell(ctx, one, outcome, longest) // then the lease is over
}

// tell tells an outcome, even after the end of ctx. It tries for as long as patience. The first try may
// meet a connection to a server that has gone, so it has a third of that. The next ones have the rest: a
// busy server may need it.
func (c *Client) tell(ctx context.Context, one Leased, outcome Outcome, patience time.Duration) {
	telling, told := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer told()
	for most := patience / 3; telling.Err() == nil; most = patience {
		trying, tried := context.WithTimeout(telling, max(most, workPause))
		_, err := c.Feedback(trying, one.Token, outcome)
		tried()
		if err == nil || lasting(err) {
			return
		}
		c.http.CloseIdleConnections() // these may lead there, too
		rest(telling, workPause)
	}
}

// keep extends a lease whenever a third of it has passed, until ctx ends with the task. It cancels the
// task when the lease is over, whether the server answers or not. It asks for the lease of the pull, since
// one.Lease is only what the answer had left of that. It returns the longest lease of all answers.
func (c *Client) keep(ctx context.Context, one Leased, lease time.Duration, cancel context.CancelCauseFunc) (longest time.Duration) {
	until, length, longest := time.Now().Add(one.Lease), one.Lease, one.Lease
	for wait := length / 3; ; wait = max(min(wait, time.Until(until)), 0) { // the process may have been stopped
		rest(ctx, wait)
		if ctx.Err() != nil {
			return longest
		}
		asked := time.Now()
		if !asked.Before(until) {
			cancel(ErrLeaseLost)
			return longest
		}
		asking, done := context.WithTimeout(ctx, min(max(length/3, workPause), until.Sub(asked)))
		left, err := c.Extend(asking, one.Token, lease)
		done()
		switch {
		case err != nil:
			wait = min(length/3, workPause)
		case left == 0:
			cancel(ErrLeaseLost)
			return longest
		default:
			until, length, longest = asked.Add(left), left, max(left, longest)
			if wait = length / 3; left < engine.MinLease { // the topic's Timeout is used up
				wait = left
			}
		}
	}
}

// lasting reports whether a call that fails with err fails again.
func lasting(err error) bool {
	var told *Error
	if errors.As(err, &told) {
		switch told.Status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests: // a proxy's
			return false
		}
		return told.Status >= http.StatusBadRequest && told.Status < http.StatusInternalServerError
	}
	return errors.Is(err, engine.ErrArgument)
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
