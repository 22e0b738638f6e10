package timeout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Pull asks for due tasks of a topic with Topic.Pull, on behalf of a program elsewhere.
type Pull struct {
	Topic string

	// Max is the greatest number of tasks. Zero means 1; more than engine.MaxPull is an error. Payloads
	// beyond engine.MaxPageBytes wait for another call.
	Max int

	// Lease is how long the tasks belong to the program, unless it calls Extend. Zero means
	// Topic.Lease; less than 100ms is an error. Topic.Timeout bounds it.
	Lease time.Duration

	// Wait is how long to wait for a first due task. Zero means not at all; negative is an error.
	Wait time.Duration
}

func (p Pull) check() error {
	if p.Max < 0 || p.Max > engine.MaxPull {
		return fmt.Errorf("%w: Max %d of a pull, must be 0 to %d", ErrArgument, p.Max, engine.MaxPull)
	}
	if p.Wait < 0 {
		return fmt.Errorf("%w: Wait %v of a pull, must not be negative", ErrArgument, p.Wait)
	}
	return engine.CheckTopic(p.Topic)
}

// Pull leases due tasks to the caller, and may return none. The caller extends their leases by
// Extend, and tells their outcomes by Feedback, with the tokens and on any node. Otherwise the
// tasks run again when their leases end. Several callers share the tasks. Backoff, Retries and
// Topic.Rate are as with handlers. Topic.Concurrency does not count, since a caller decides by Max
// how many tasks it has.
//
// Pull works without Run, but then it hears of no task that another node sets, and asks the engine
// every Config.Poll. And each Pull, Extend and Feedback reads all topics: some milliseconds if there
// are hundreds. When Run ends, waiting and later calls return ErrStopping, until Run begins again.
// A topic without Topic.Pull is ErrConflict, and a missing one is ErrNotFound. If ctx ends, Pull hands
// back the tasks that it has leased.
func (c *Center) Pull(ctx context.Context, pull Pull) ([]Leased, error) {
	return checked(c, Pull.check, []Pull{pull}, func() ([]Leased, error) {
		topic, err := c.pulledTopic(ctx, pull.Topic)
		if err != nil {
			return nil, err
		}
		lease, err := leaseOf(topic, pull.Lease)
		if err != nil {
			return nil, err
		}
		r := &request{most: cmp.Or(pull.Max, 1), lease: lease, last: pull.Wait == 0, got: make(chan struct{})}
		d, pulling, err := c.queue(topic, r)
		if err != nil {
			return nil, err
		}
		return d.await(ctx, pulling, r, pull.Wait)
	})
}

// pulledTopic returns a topic with Topic.Pull.
func (c *Center) pulledTopic(ctx context.Context, name string) (Topic, error) {
	topic, err := c.lookUp(ctx, name)
	if err == nil && !topic.Pull { // it may have changed
		topic, err = c.readTopic(ctx, name)
	}
	if err == nil && !topic.Pull {
		err = fmt.Errorf("%w: topic %q is not pulled, since nodes run its tasks: set its Pull first", ErrConflict, name)
	}
	return topic, err
}

// leaseOf returns the length of a lease for a program elsewhere. Zero means the topic's.
func leaseOf(topic Topic, lease time.Duration) (time.Duration, error) {
	topic = topic.WithDefaults()
	limit := timeLimit(topic)
	if lease != 0 {
		topic.Lease = lease
	}
	if err := topic.Check(); err != nil {
		return 0, err
	}
	if limit > 0 {
		return min(topic.Lease, limit), nil
	}
	return topic.Lease, nil
}

// queue adds a request to the dispatcher of a topic. pulling ends with the requests.
func (c *Center) queue(topic Topic, r *request) (d *dispatcher, pulling context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := context.Cause(c.pulling); err != nil {
		return nil, nil, err
	}
	d = c.dispatcher(topic.Name)
	d.change(topic)
	d.join(r)
	return d, c.pulling, nil
}

// dispatcher returns the dispatcher of a topic. c.mu must be held.
func (c *Center) dispatcher(name string) *dispatcher {
	d := c.dispatchers[name]
	if d == nil {
		d = new(dispatcher)
		d.attach(c, name, d, &c.serving)
		c.dispatchers[name] = d
	}
	return d
}

// Release hands back tasks of Pull that nobody has begun. It is Feedback with ErrStopping for each of them, by one call of
// the engine for the tasks of a topic. Tasks whose leases have ended stay as they are. With Config.FeedbackKeys an unsigned
// token is ErrForged, and no task is handed back.
func (c *Center) Release(ctx context.Context, leased ...Leased) error {
	_, err := checked(c, func(one Leased) error { return c.checkToken(one.Token) }, leased, func() (any, error) {
		byTopic := make(map[string][]engine.Outcome)
		for _, outcome := range unbegun(leased) {
			byTopic[outcome.Token.Topic] = append(byTopic[outcome.Token.Topic], outcome)
		}
		var errs []error
		for topic, outcomes := range byTopic {
			_, err := c.settle(ctx, topic, outcomes...)
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	})
	return err
}

// unbegun returns the outcomes of tasks that nobody has begun.
func unbegun(leased []Leased) (outcomes []engine.Outcome) {
	for i := range leased {
		outcomes = append(outcomes, engine.Outcome{Token: bare(leased[i].Token), As: Pending, Release: true})
	}
	return outcomes
}

// settle tells the engine of outcomes, and reports which leases had not ended. Those of a dropped topic have.
func (c *Center) settle(ctx context.Context, topic string, outcomes ...engine.Outcome) (settled []bool, err error) {
	batch, err := c.engine.Lease(ctx, engine.Ask{Topic: topic, Node: c.cfg.Node, Settle: outcomes})
	if errors.Is(err, ErrNotFound) {
		return make([]bool, len(outcomes)), nil
	}
	if err != nil {
		return nil, err
	}
	c.tellDead(outcomes, batch.Settled)
	c.wakeAll(len(outcomes), func(i int) (key Key, due time.Time) {
		if o := outcomes[i]; o.As == Pending && batch.Settled[i] {
			due = time.UnixMilli(o.DueAt(batch.Now.UnixMilli()))
		}
		return outcomes[i].Token.Key, due
	})
	return batch.Settled, nil
}

// Extend makes the lease of a token end after the duration lease from now, be that earlier or
// later than before. The token is of Pull, or of a task after ErrAccepted. Zero means Topic.Lease;
// less than 100ms is an error. One call reaches at most Topic.Timeout from now, and a pulled task
// has no more than Topic.Timeout in all. Extend returns how long the lease lasts now. That is zero
// if the lease is lost: the task has used up Topic.Timeout, runs again, or has been set, removed or
// settled. With Config.FeedbackKeys Extend returns ErrForged for an unsigned token.
func (c *Center) Extend(ctx context.Context, token Token, lease time.Duration) (time.Duration, error) {
	return during(c, func() (time.Duration, error) {
		topic, err := c.admit(ctx, token)
		if errors.Is(err, ErrNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		left, err := leaseOf(topic, lease)
		if err != nil {
			return 0, err
		}
		if limit := timeLimit(topic); limit > 0 && token.Begun != 0 {
			now, err := c.engine.Now(ctx)
			if err != nil {
				return 0, err
			}
			if left = min(left, time.UnixMilli(token.Begun).Add(limit).Sub(now)); left <= 0 {
				return 0, nil
			}
		}
		held, err := c.engine.Extend(ctx, []Token{bare(token)}, left)
		switch {
		case len(held) == 1 && held[0]: // right, even beside ErrPartial
			return left, nil
		case errors.Is(err, ErrNotFound):
			return 0, nil
		}
		return 0, err
	})
}
