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
	return during(c, func() (bool, error) {
		topic, err := c.admit(ctx, token)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		outcome, err := c.outcomeOf(ctx, topic, token, failure)
		if err != nil {
			return false, err
		}
		settled, err := c.settle(ctx, token.Topic, outcome)
		if err != nil || !settled[0] {
			return false, err
		}
		if isGivenUp(outcome) { // another node may have leased the task
			c.count(token.Topic, func(s *Stats) { s.gaveUp(outcome) })
		}
		return true, nil
	})
}

// outcomeOf returns the outcome of an attempt that somebody else has made. It reads the task, which may be large, only if
// the outcome depends on it.
func (c *Center) outcomeOf(ctx context.Context, topic Topic, token Token, failure error) (outcome engine.Outcome, err error) {
	if errors.Is(failure, ErrStopping) {
		return engine.Outcome{Token: bare(token), As: Pending, Release: true}, nil
	}
	schedule, err := scheduleOf(topic)
	if err != nil {
		return outcome, err
	}
	logged := token.Begun != 0 && engine.Logs(c.engine)
	var now time.Time
	if schedule != nil || logged {
		if now, err = c.engine.Now(ctx); err != nil {
			return outcome, err
		}
	}
	tasks := make([]Task, 1)
	if schedule != nil || retries(failure) {
		if tasks, err = c.engine.Get(ctx, []Key{token.Key}); err != nil {
			return outcome, err
		}
	}
	outcome = conclude(topic, schedule, tasks[0], now, failure)
	outcome.Token = bare(token)
	if logged {
		outcome.Started = time.UnixMilli(token.Begun)
		outcome.Took = max(now.Sub(outcome.Started), 0)
	}
	return outcome, nil
}

// admit checks a token from outside, and returns its topic, or ErrNotFound if that is gone.
func (c *Center) admit(ctx context.Context, token Token) (Topic, error) {
	if err := c.checkToken(token); err != nil {
		return Topic{}, err
	}
	return c.lookUp(ctx, token.Topic)
}

func (c *Center) checkToken(token Token) error {
	err := token.Check()
	if keys := c.cfg.FeedbackKeys; err == nil && len(keys) > 0 && !proved(token, keys) {
		err = fmt.Errorf("%w of %v", ErrForged, token.Key)
	}
	return err
}

// bare returns a token as engines know it.
func bare(token Token) Token {
	token.Proof, token.Begun = "", 0
	return token
}
