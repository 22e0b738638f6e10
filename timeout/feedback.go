package timeout

import (
	"context"
	"errors"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Feedback tells the outcome of a task after ErrAccepted. failure is like the error of a
// handler, and nil is success. Feedback reports false if the lease had ended: the task runs
// again, has been set, removed or settled, or its topic was dropped. Telling an outcome twice
// does no harm. With Config.FeedbackKeys it returns ErrForged for an unsigned token, whatever
// the task.
func (c *Center) Feedback(ctx context.Context, token Token, failure error) (bool, error) {
	if err := c.open(); err != nil {
		return false, err
	}
	if err := token.Check(); err != nil {
		return false, err
	}
	if keys := c.cfg.FeedbackKeys; len(keys) > 0 && !proved(token, keys) {
		return false, fmt.Errorf("%w of %v", ErrForged, token.Key)
	}
	token.Proof = "" // unknown to engines
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
	batch, err := c.engine.Expire(ctx, engine.Ask{Topic: token.Topic, Node: c.cfg.Node, Settle: []engine.Outcome{outcome}})
	if errors.Is(err, ErrNotFound) { // dropped after this node had learned of it
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
