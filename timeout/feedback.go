package timeout

import (
	"context"
	"errors"
)

// Feedback tells the outcome of a task whose handler has returned ErrAccepted: failure is as
// a handler would return it, and nil is success. It reports false where the lease had ended
// before: the task runs again, has been set, removed or settled, or its topic was dropped.
// Telling it twice does no harm.
func (c *Center) Feedback(ctx context.Context, token Token, failure error) (bool, error) {
	if err := c.open(); err != nil {
		return false, err
	}
	if err := token.Check(); err != nil {
		return false, err
	}
	topic, err := c.lookUp(ctx, token.Topic)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	tasks, err := c.engine.Get(ctx, []Key{token.Key})
	if err != nil {
		return false, err
	}
	outcome := conclude(topic, token, tasks[0].Attempts, failure)
	batch, err := c.engine.Expire(ctx, Ask{Topic: token.Topic, Node: c.cfg.Node, Settle: []Outcome{outcome}})
	if errors.Is(err, ErrNotFound) { // dropped since this node knew it
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if outcome.As == Pending && batch.Settled[0] {
		c.wake(token.Topic, batch.Now.Add(outcome.After))
	}
	return batch.Settled[0], nil
}
