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

// Count is engine.Engine's.
func (e *Engine) Count(ctx context.Context, topic string) (engine.Counts, error) {
	var counts engine.Counts
	err := e.using(ctx, topic, func(l *layout) error {
		counts = engine.Counts{}
		return e.all(ctx, l.partitions, func(at *partition) *invocation { return invoke(scriptCount, at) },
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

// List is engine.Engine's. A missing topic has an empty page.
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
		for more := true; more && len(page.Tasks) < limit; {
			var tasks []engine.Task
			tasks, from, more, err = e.listAfter(ctx, l, query, from, room{limit - len(page.Tasks), engine.MaxPageBytes - bytes, len(page.Tasks) == 0})
			if err != nil {
				return err
			}
			page.Next = ""
			if more {
				page.Next = cursor.Write(from.at, from.id)
			}
			for _, task := range tasks {
				bytes += len(task.Payload)
				if task.Version != 0 { // otherwise its body is lost
					page.Tasks = append(page.Tasks, task)
				}
			}
			if len(tasks) == 0 {
				break // the next one does not fit, or the next ones have gone
			}
		}
		return nil
	})
	if err != nil {
		page = engine.Page{}
	}
	return page, absent(err)
}

// after is a position in a list: behind the task of an id and a time in milliseconds. A negative time is
// before the first task.
type after struct {
	at int64
	id string
}

// behind returns the position behind a task.
func behind(task engine.Task) after { return after{task.Until.UnixMilli(), task.ID} }

// room is the room on the rest of a page. The first task fits onto an empty page in any case.
type room struct {
	tasks, bytes int
	empty        bool
}

// listAfter returns the next tasks of all partitions, the position behind them, and whether there may be more. It asks
// each partition for a share of what fits. So it may return fewer tasks than that, but at least one if one fits.
func (e *Engine) listAfter(ctx context.Context, l *layout, query engine.Query, from after, room room) (tasks []engine.Task, to after, more bool, err error) {
	var ends []engine.Task // the last one of each partition with more
	share, bytes := min(room.tasks, 2*room.tasks/len(l.partitions)+4), room.bytes/len(l.partitions)
	score := ""
	if from.at >= 0 {
		score = strconv.FormatInt(from.at, 10)
	}
	ask := func(at *partition) *invocation {
		c := invoke(scriptList, at, int(query.State), share, score, from.id, bytes, query.OmitPayload)
		c.room, c.Size = share, bytes
		return c
	}
	err = e.all(ctx, l.partitions, ask, func(c *invocation) error {
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
		return nil, from, false, err
	}
	slices.SortFunc(tasks, byTime)
	if to = from; len(ends) > 0 { // what comes behind the first of them is not known
		end := slices.MinFunc(ends, byTime)
		n, there := slices.BinarySearchFunc(tasks, end, byTime)
		if there {
			n++
		}
		tasks, to, more = tasks[:n], behind(end), true
	}
	if fit := room.fit(tasks); fit < len(tasks) {
		tasks, to, more = tasks[:fit], from, true
	}
	if len(tasks) > 0 {
		to = behind(tasks[len(tasks)-1])
	}
	return tasks, to, more, nil
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

// readList returns the tasks of an answer. One with a lost body has no version.
func readList(query engine.Query, answer []any) ([]engine.Task, error) {
	ids, scores, bodies, records, sizes := list(answer[0]), list(answer[1]), list(answer[2]), list(answer[3]), list(answer[5])
	tasks := make([]engine.Task, len(ids))
	for i := range ids {
		task := &tasks[i]
		task.Topic, task.ID, task.State, task.Until = query.Topic, text(ids[i]), query.State, time.UnixMilli(integer(scores[i]))
		if body := text(bodies[i]); body != "" {
			if err := complete(task, body, text(records[i]), text(scores[i])); err != nil {
				return nil, err
			}
		}
		if query.OmitPayload {
			task.PayloadBytes = int(integer(sizes[i]))
		}
	}
	return tasks, nil
}
