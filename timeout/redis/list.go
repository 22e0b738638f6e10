package redis

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Count is engine.Engine's. While a topic grows, tasks that are just being moved may be
// counted twice.
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

// cursor is where a list goes on. The list goes through the groups of slots that were one
// slot when it began: so a task that is moved to another slot meanwhile stays where it is in
// the list.
type cursor struct {
	slots int // how many there were
	slot  int // the one of these that comes next
	score string
	id    string // after this one, if score is not empty
}

func (c cursor) String() string {
	parts := []string{strconv.Itoa(c.slots), strconv.Itoa(c.slot), c.score, c.id}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, "\n")))
}

func parseCursor(given string) (c cursor, err error) {
	bad := fmt.Errorf("%w: cursor %.300q, must be the Next of a page", engine.ErrArgument, given)
	raw, err := base64.RawURLEncoding.DecodeString(given)
	if err != nil {
		return c, bad
	}
	parts := strings.SplitN(string(raw), "\n", 4)
	if len(parts) != 4 {
		return c, bad
	}
	var err1, err2, err3 error
	c.slots, err1 = strconv.Atoi(parts[0])
	c.slot, err2 = strconv.Atoi(parts[1])
	if parts[2] != "" {
		_, err3 = strconv.ParseUint(parts[2], 10, 63)
	}
	if cmp.Or(err1, err2, err3) != nil || c.slots < 1 || c.slots > engine.MaxSlots || c.slots&(c.slots-1) != 0 ||
		c.slot < 0 || c.slot >= c.slots || (parts[2] == "") != (parts[3] == "") {
		return c, bad
	}
	c.score, c.id = parts[2], parts[3]
	return c, nil
}

// List is engine.Engine's. A topic that is not there has an empty page.
func (e *Engine) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	limit := cmp.Or(query.Limit, 100)
	if limit < 0 || limit > engine.MaxPage {
		return engine.Page{}, fmt.Errorf("%w: Limit %d of a list, must be 0 to %d", engine.ErrArgument, limit, engine.MaxPage)
	}
	if query.State == engine.None || query.State > engine.Removed {
		return engine.Page{}, fmt.Errorf("%w: state %v of a list, must be pending, running, done, dead or removed", engine.ErrArgument, query.State)
	}
	var at cursor
	if query.Cursor != "" {
		var err error
		if at, err = parseCursor(query.Cursor); err != nil {
			return engine.Page{}, err
		}
	}
	var page engine.Page
	bytes := 0
	err := e.using(ctx, query.Topic, func(l *layout) error {
		if at.slots == 0 {
			at.slots = len(l.places)
		}
		if at.slots > len(l.places) {
			return fmt.Errorf("%w: cursor of a list with %d slots, topic %s has %d", engine.ErrArgument, at.slots, query.Topic, len(l.places))
		}
		for len(page.Tasks) < limit && at.slot < at.slots {
			tasks, more, err := e.listGroup(ctx, l, query.State, at, room{limit - len(page.Tasks), engine.MaxPageBytes - bytes, len(page.Tasks) == 0})
			if err != nil {
				return err
			}
			page.Tasks = append(page.Tasks, tasks...)
			for _, task := range tasks {
				bytes += len(task.Payload)
			}
			if more {
				if len(tasks) > 0 {
					last := tasks[len(tasks)-1]
					at.score, at.id = strconv.FormatInt(last.Until.UnixMilli(), 10), last.ID
				}
				break
			}
			at = cursor{slots: at.slots, slot: at.slot + 1}
		}
		return nil
	})
	if err == nil && at.slot < at.slots {
		page.Next = at.String()
	}
	return page, absent(err)
}

// room is what fits onto the rest of a page. On one that is empty the first task does.
type room struct {
	tasks, bytes int
	empty        bool
}

// listGroup returns what comes after a cursor in the slots that were one when the list began,
// and whether there is more in them.
func (e *Engine) listGroup(ctx context.Context, l *layout, state engine.State, at cursor, room room) (tasks []engine.Task, more bool, err error) {
	var group []int
	for slot := at.slot; slot < len(l.places); slot += at.slots {
		group = append(group, slot)
	}
	for left := l.old != nil; left; { // first all of them must be where they belong
		if left, err = e.draw(ctx, l, group); err != nil {
			return nil, false, err
		}
	}
	calls, least := make([]*invocation, len(group)), 0
	if room.empty {
		least = 1
	}
	for i, slot := range group {
		calls[i] = invoke(scriptList, l.places[slot], int(state), room.tasks, at.score, at.id, room.bytes, least)
		calls[i].room, calls[i].Size = room.tasks, room.bytes
	}
	if err := e.run(ctx, calls); err != nil {
		return nil, false, err
	}
	var ends []engine.Task // behind which a slot has more
	for _, c := range calls {
		if c.Status != "" {
			return nil, false, e.mend(ctx, l, c)
		}
		found, err := readList(l.Topic.Name, state, c.Answer)
		if err != nil {
			return nil, false, err
		}
		switch full := integer(c.Answer[4]) == 1 || len(found) == room.tasks; {
		case full && len(found) == 0:
			return nil, true, nil // not one has fitted
		case full:
			ends = append(ends, found[len(found)-1])
		}
		tasks = append(tasks, found...)
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

func readList(topic string, state engine.State, answer []any) ([]engine.Task, error) {
	ids, scores, bodies, records := list(answer[0]), list(answer[1]), list(answer[2]), list(answer[3])
	tasks := make([]engine.Task, len(ids))
	for i := range ids {
		task := &tasks[i]
		task.Topic, task.ID, task.State = topic, text(ids[i]), state
		if err := fill(task, text(bodies[i]), text(records[i]), text(scores[i])); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}
