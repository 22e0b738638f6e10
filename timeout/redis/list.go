package redis

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/cursor"
)

// Count is engine.Engine's. While a topic grows, it may count tasks twice in the middle of their
// move.
func (e *Engine) Count(ctx context.Context, topic string) (engine.Counts, error) {
	var counts engine.Counts
	err := e.using(ctx, topic, func(l *layout) error {
		counts = engine.Counts{}
		return e.all(ctx, slices.Concat(l.places, l.old), func(at *place) *invocation { return invoke(scriptCount, at) },
			func(c *invocation) error {
				found := list(c.Answer[1])
				for i := range found {
					counts.Add(engine.Pending+engine.State(i), integer(found[i]))
				}
				counts.Due += integer(c.Answer[2])
				if first := text(c.Answer[3]); first != "" {
					late := time.Duration(integer(c.Answer[0])-integer(first)) * time.Millisecond
					counts.Lag = max(counts.Lag, late)
				}
				return nil
			})
	})
	return counts, err
}

// List is engine.Engine's. A missing topic has an empty page. While a topic grows, List first
// moves all of its tasks to where they belong.
func (e *Engine) List(ctx context.Context, query engine.Query) (page engine.Page, err error) {
	if err := query.Check(); err != nil {
		return page, err
	}
	limit := cmp.Or(query.Limit, 100)
	var from after
	if from.at, from.id, err = cursor.Read(query.Cursor); err != nil {
		return page, err
	}
	bytes := 0
	err = e.using(ctx, query.Topic, func(l *layout) (err error) {
		if err := e.moveAll(ctx, l); err != nil {
			return err
		}
		for more := true; more && len(page.Tasks) < limit; {
			var tasks []engine.Task
			tasks, more, err = e.listAfter(ctx, l, query, from, room{limit - len(page.Tasks), engine.MaxPageBytes - bytes, len(page.Tasks) == 0})
			if err != nil {
				return err
			}
			page.Next = ""
			for _, task := range tasks {
				from.at, from.id = task.Until.UnixMilli(), task.ID
				bytes += len(task.Payload)
			}
			page.Tasks = append(page.Tasks, tasks...)
			if more {
				page.Next = cursor.Write(from.at, from.id)
			}
			if len(tasks) == 0 {
				break // the next one does not fit
			}
		}
		return nil
	})
	if err != nil {
		page = engine.Page{}
	}
	return page, absent(err)
}

// after is a place in a list: behind the task of an id and a time in milliseconds. A negative time is
// before the first task.
type after struct {
	at int64
	id string
}

// room is the room on the rest of a page. The first task fits onto an empty page in any case.
type room struct {
	tasks, bytes int
	empty        bool
}

// listAfter returns the next tasks of all slots, and whether there may be more. It asks each slot for a
// share of what fits. So it may return fewer tasks than that, but at least one if one fits.
func (e *Engine) listAfter(ctx context.Context, l *layout, query engine.Query, from after, room room) (tasks []engine.Task, more bool, err error) {
	slots := len(l.places)
	share, bytes := min(room.tasks, 2*room.tasks/slots+4), room.bytes/slots
	score := ""
	if from.at >= 0 {
		score = strconv.FormatInt(from.at, 10)
	}
	ask := func(at *place) *invocation {
		c := invoke(scriptList, at, int(query.State), share, score, from.id, bytes, query.OmitPayload)
		c.room, c.Size = share, bytes
		return c
	}
	var ends []engine.Task // behind which a slot has more
	err = e.all(ctx, l.places, ask, func(c *invocation) error {
		if c.Status != "" {
			return e.mend(ctx, l, c)
		}
		found, err := readList(query, c.Answer)
		if err != nil {
			return err
		}
		if integer(c.Answer[4]) == 1 || len(found) == share {
			ends = append(ends, found[len(found)-1])
		}
		tasks = append(tasks, found...)
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(tasks, byTime)
	for _, end := range ends { // what comes behind it is not known
		at, _ := slices.BinarySearchFunc(tasks, end, byTime)
		tasks, more = tasks[:min(at+1, len(tasks))], true
	}
	if fit := room.fit(tasks); fit < len(tasks) {
		tasks, more = tasks[:fit], true
	}
	return tasks, more, nil
}

// fit returns how many of some tasks do.
func (r room) fit(tasks []engine.Task) int {
	bytes := 0
	for i, task := range tasks {
		bytes += len(task.Payload)
		first := r.empty && i == 0
		if i == r.tasks || bytes > r.bytes && !first {
			return i
		}
	}
	return len(tasks)
}

// byTime is the order of Redis's sorted sets.
func byTime(a, b engine.Task) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID)) }

func readList(query engine.Query, answer []any) ([]engine.Task, error) {
	ids, scores, bodies, records, sizes := list(answer[0]), list(answer[1]), list(answer[2]), list(answer[3]), list(answer[5])
	tasks := make([]engine.Task, len(ids))
	for i := range ids {
		task := &tasks[i]
		task.Topic, task.ID, task.State = query.Topic, text(ids[i]), query.State
		if err := complete(task, text(bodies[i]), text(records[i]), text(scores[i])); err != nil {
			return nil, err
		}
		if query.OmitPayload {
			task.PayloadBytes = int(integer(sizes[i]))
		}
	}
	return tasks, nil
}
