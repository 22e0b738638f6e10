package redis

import (
	"context"
	"errors"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// keepTasks is how many tasks of one kind and slot are deleted by one script.
const keepTasks = 256

// Upkeep is timeout.Engine's. It also goes on with what others have begun to do with topics
// and not finished. The term is not looked at.
func (e *Engine) Upkeep(ctx context.Context, _ int64) (swept timeout.Swept, err error) {
	layouts, err := e.loadAll(ctx)
	if err != nil {
		return swept, err
	}
	var failed error
	for _, l := range layouts {
		again, err := e.upkeepOf(ctx, l.Topic.Name)
		failed = errors.Join(failed, err) // a topic that can't be kept holds up no other
		swept.More = swept.More || again
	}
	return swept, failed
}

func (e *Engine) upkeepOf(ctx context.Context, topic string) (more bool, err error) {
	l, err := e.reload(ctx, topic)
	if errors.Is(err, timeout.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	more, err = e.draw(ctx, l, nil)
	if errors.Is(err, errStale) {
		return true, nil
	}
	if err != nil {
		return more, err
	}
	err = e.all(ctx, l.places, func(at *place) *invocation { return l.keep(at, keepTasks) }, func(c *invocation) error {
		more = more || c.Status != "" || integer(c.Answer[0]) == 1
		return nil
	})
	return more, err
}
