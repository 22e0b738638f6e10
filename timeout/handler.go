package timeout

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// A Handler runs a due task. Without an error the task is Done. After an error it is tried
// again after Topic.Backoff, or after the delay of RetryAfter. It is Dead if the error is
// Permanent or Topic.Retries are used up. A panic is an error with the stack. ErrAccepted means
// that somebody will tell the outcome to Center.Feedback, with the token from TokenOf. Again means
// success, and that the task runs once more later. A task of a topic with Every waits for its next
// time in place of Done, and if its retries are used up.
//
// The context ends when the lease is lost: the task was set or removed meanwhile, or the engine
// could not be reached for as long as the lease. Then another node may run the task, and the
// handler's result is ignored. Of a set, a removal or a dropped topic the handler hears at once, if its node
// does: see Center.Remove. The context ends as well after Topic.Timeout, and some time
// after Run was told to end. context.Cause says which it was.
//
// A handler is called at least once for each task, by several goroutines at the same time, and
// now and then again after a crash. It must be able to stand that. Task.Key with Task.Version
// is the same in all calls for one set. Task.Due tells the runs by Again apart.
type Handler func(ctx context.Context, task Task) error

// HandleJSON is Center.Handle for tasks whose payload is JSON, as json.Unmarshal reads it into a T. A task with another
// payload is Dead at once: another attempt would meet it as well.
func HandleJSON[T any](c *Center, topic string, handle func(ctx context.Context, task Task, payload T) error) error {
	return c.Handle(topic, func(ctx context.Context, task Task) error {
		var payload T
		if err := json.Unmarshal(task.Payload, &payload); err != nil {
			return Permanent(fmt.Errorf("%w: payload of %v is no JSON for a %T: %w", ErrArgument, task.Key(), payload, err))
		}
		return handle(ctx, task, payload)
	})
}

// wrapped returns a handler within Config.Middleware.
func (c *Center) wrapped(handler Handler) Handler {
	for _, wrap := range slices.Backward(c.cfg.Middleware) {
		handler = wrap(handler)
	}
	return handler
}
