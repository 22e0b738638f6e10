package timeout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Feedback tells the outcome of a task after ErrAccepted, or of a task from Pull. failure is like
// the error of a handler, and nil is success. With ErrStopping nobody has begun the task: it is due
// at once, and the attempt does not count. Feedback reports false if the lease had ended: the task
// runs again, has been set, removed or settled, or its topic was dropped. Telling an outcome twice
// does no harm. With Config.FeedbackKeys it returns ErrForged for an unsigned token, whatever the
// task.
func (c *Center) Feedback(ctx context.Context, token Token, failure error) (bool, error) {
	if err := c.enter(); err != nil {
		return false, err
	}
	defer c.calls.Done()
	topic, err := c.admit(ctx, token)
	if errors.Is(err, errNoTopic) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	tasks, err := c.engine.Get(ctx, []Key{token.Key})
	if err != nil {
		return false, err
	}
	var now time.Time
	schedule, err := scheduleOf(topic)
	if err == nil && schedule != nil {
		now, err = c.engine.Now(ctx)
	}
	if err != nil {
		return false, err
	}
	outcome := conclude(topic, schedule, tasks[0], now, failure)
	if errors.Is(failure, ErrStopping) {
		outcome = engine.Outcome{As: Pending, Refund: true}
	}
	outcome.Token = bare(token)
	if token.Begun != 0 {
		outcome.Started = time.UnixMilli(token.Begun)
		outcome.Took = max(time.Since(outcome.Started), 0)
	}
	batch, err := c.engine.Expire(ctx, engine.Ask{Topic: token.Topic, Node: c.cfg.Node, Settle: []engine.Outcome{outcome}})
	if errors.Is(err, ErrNotFound) { // dropped after this node had learned of it
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if batch.Settled[0] {
		c.gaveUp(outcome)
	}
	if outcome.As == Pending && batch.Settled[0] {
		due := outcome.Due
		if due.IsZero() {
			due = batch.Now.Add(outcome.After)
		}
		c.wake(token.Topic, due)
	}
	return batch.Settled[0], nil
}

// gaveUp counts an outcome that was told to this node. Another node may have leased the task.
func (c *Center) gaveUp(outcome engine.Outcome) {
	if !isGivenUp(outcome) {
		return
	}
	c.mu.Lock()
	d := c.desk(outcome.Token.Topic)
	c.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.gaveUp(outcome)
}

// errNoTopic is the error of admit if the topic of a token is gone.
var errNoTopic = errors.New("timeout: the topic of the token is gone")

// admit checks a token from outside, and returns its topic.
func (c *Center) admit(ctx context.Context, token Token) (Topic, error) {
	if err := token.Check(); err != nil {
		return Topic{}, err
	}
	if keys := c.cfg.FeedbackKeys; len(keys) > 0 && !proved(token, keys) {
		return Topic{}, fmt.Errorf("%w of %v", ErrForged, token.Key)
	}
	topic, err := c.lookUp(ctx, token.Topic)
	if errors.Is(err, ErrNotFound) {
		err = errNoTopic
	}
	return topic, err
}

// bare returns a token as engines know it.
func bare(token Token) Token {
	token.Proof, token.Begun = "", 0
	return token
}
