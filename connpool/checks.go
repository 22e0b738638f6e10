package connpool

import (
	"context"
	"time"
)

// checks is the context of all checks of one Get. It ends while the caller still has time for a
// dial.
type checks struct {
	ctx    context.Context // nil before the first check
	cancel context.CancelFunc
}

func (c *checks) within(ctx context.Context, limit time.Duration) context.Context {
	if c.ctx == nil {
		if deadline, ok := ctx.Deadline(); ok && limit != never {
			limit = min(limit, time.Until(deadline)/2)
		}
		c.ctx, c.cancel = bounded(ctx, limit)
	}
	return c.ctx
}

func (c *checks) over() bool { return c.ctx != nil && c.ctx.Err() != nil }

func (c *checks) end() {
	if c.cancel != nil {
		c.cancel()
	}
}

// bounded returns a context for a function of the user. The limit may be never.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == never {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}
