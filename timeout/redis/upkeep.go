package redis

import (
	"context"
	"errors"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// keepTasks is how many tasks of one kind and slot are deleted by one script.
const keepTasks = 256

// Upkeep is engine.Engine's. It also goes on with what others have begun to do with topics
// and not finished. The term is not looked at.
func (e *Engine) Upkeep(ctx context.Context, _ int64) (swept engine.Swept, err error) {
	layouts, err := e.loadAll(ctx)
	if err != nil {
		return swept, err
	}
	var failed error
	for _, l := range layouts {
		failed = errors.Join(failed, e.upkeepOf(ctx, l.Topic.Name, &swept)) // a topic that can't be kept holds up no other
	}
	return swept, failed
}

func (e *Engine) upkeepOf(ctx context.Context, topic string, swept *engine.Swept) error {
	l, err := e.reload(ctx, topic)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	more, err := e.draw(ctx, l, nil)
	if errors.Is(err, errStale) {
		more, err = true, nil
	} else if err == nil {
		err = e.all(ctx, l.places, func(at *place) *invocation { return l.keep(at, keepTasks) }, func(c *invocation) error {
			if c.Status != "" {
				more = true
				return nil
			}
			more = more || integer(c.Answer[0]) == 1
			swept.AddDead(topic, int(integer(c.Answer[1])))
			return nil
		})
	}
	swept.More = swept.More || more
	return err
}
