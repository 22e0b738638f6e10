package timeout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Get returns a task. It returns ErrNotFound if there is none: it was never set, or has ended
// and is not kept.
func (c *Center) Get(ctx context.Context, key Key) (Task, error) {
	return checked(c, Key.Check, []Key{key}, func() (Task, error) {
		tasks, err := c.engine.Get(ctx, []Key{key})
		if err != nil {
			return Task{}, err // for one task, a partial answer is none
		}
		if tasks[0].State == None {
			return Task{}, fmt.Errorf("%w: task %v", ErrNotFound, key)
		}
		return tasks[0], nil
	})
}

// GetAll is Get for many tasks. Missing tasks have State None. Besides an error wrapping
// ErrPartial it returns tasks as well; then nothing is known of those without a State. The
// answer has all payloads, so ask for few keys at a time if payloads are large.
func (c *Center) GetAll(ctx context.Context, keys []Key) ([]Task, error) {
	return checked(c, Key.Check, keys, func() ([]Task, error) { return c.engine.Get(ctx, keys) })
}

// List returns a page of the tasks of a topic and a state, with payloads of at most
// MaxPageBytes, or with none by Query.OmitPayload. If Page.Next is not empty there are more, however many
// are on the page: with Query.Metadata a page can be empty, after a second without such a task.
func (c *Center) List(ctx context.Context, query Query) (Page, error) {
	return checked(c, Query.Check, []Query{query}, func() (Page, error) {
		if len(query.Metadata) == 0 {
			return c.engine.List(ctx, query)
		}
		for until := time.Now().Add(searchTime); ; {
			page, err := c.engine.List(ctx, query)
			page.Tasks = slices.DeleteFunc(page.Tasks, func(task Task) bool { return !task.Options.Has(query.Metadata) })
			if err != nil || len(page.Tasks) > 0 || page.Next == "" || !time.Now().Before(until) {
				return page, err
			}
			query.Cursor = page.Next
		}
	})
}

// searchTime is how long a call of List goes on without a task that has Query.Metadata.
const searchTime = time.Second

// Executions returns the ended attempts of a task, the latest first, at most limit and not more
// than MaxPage. Attempts that a node cut off at its own end were handed back, and are not among
// them. It returns ErrUnsupported if the engine is no Log, or keeps none.
func (c *Center) Executions(ctx context.Context, key Key, limit int) ([]Execution, error) {
	return checked(c, Key.Check, []Key{key}, func() ([]Execution, error) {
		log, ok := c.engine.(engine.Log)
		if !ok {
			return nil, fmt.Errorf("%w: a log of executions", ErrUnsupported)
		}
		if limit < 1 || limit > engine.MaxPage {
			return nil, fmt.Errorf("%w: limit %d of executions, must be 1 to %d", ErrArgument, limit, engine.MaxPage)
		}
		return log.Executions(ctx, key, limit)
	})
}
