package timeout

import (
	"context"
	"fmt"
)

// Get returns a task. It is ErrNotFound where there is none: it was never set, or has ended
// and is not kept.
func (c *Center) Get(ctx context.Context, key Key) (Task, error) {
	if err := c.checkKeys([]Key{key}); err != nil {
		return Task{}, err
	}
	tasks, err := c.engine.Get(ctx, []Key{key})
	if err != nil {
		return Task{}, err // of one task, a part is all
	}
	if tasks[0].State == None {
		return Task{}, fmt.Errorf("%w: task %v", ErrNotFound, key)
	}
	return tasks[0], nil
}

// GetAll is Get for many tasks. Those that are not there have State None. With an error that wraps
// ErrPartial there are tasks besides: nothing is known of those without a State then. All payloads
// are in the answer, so who has large ones asks for few keys at a time.
func (c *Center) GetAll(ctx context.Context, keys []Key) ([]Task, error) {
	if err := c.checkKeys(keys); err != nil {
		return nil, err
	}
	return c.engine.Get(ctx, keys)
}

// List returns a page of the tasks of a topic and a state, with payloads of at most
// MaxPageBytes: where Page.Next is not empty there are more, however many are on the page.
func (c *Center) List(ctx context.Context, query Query) (Page, error) {
	if err := c.open(); err != nil {
		return Page{}, err
	}
	if err := CheckTopic(query.Topic); err != nil {
		return Page{}, err
	}
	if query.State == None || query.State > Removed {
		return Page{}, fmt.Errorf("%w: state %v of a list, must be pending, running, done, dead or removed", ErrArgument, query.State)
	}
	if query.Limit < 0 || query.Limit > MaxPage {
		return Page{}, fmt.Errorf("%w: Limit %d of a list, must be 0 to %d", ErrArgument, query.Limit, MaxPage)
	}
	query.Limit = or(query.Limit, 100)
	return c.engine.List(ctx, query)
}

// Executions returns the attempts of a task that have ended, the latest first, at most limit
// and not more than MaxPage. It is ErrUnsupported where the engine is no Log.
func (c *Center) Executions(ctx context.Context, key Key, limit int) ([]Execution, error) {
	if err := c.checkKeys([]Key{key}); err != nil {
		return nil, err
	}
	log, ok := c.engine.(Log)
	if !ok {
		return nil, fmt.Errorf("%w: a log of executions", ErrUnsupported)
	}
	if limit < 1 || limit > MaxPage {
		return nil, fmt.Errorf("%w: limit %d of executions, must be 1 to %d", ErrArgument, limit, MaxPage)
	}
	return log.Executions(ctx, key, limit)
}
