package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/cursor"
)

// counted is a recent count of a large topic.
type counted struct {
	counts engine.Counts
	until  time.Time
}

const (
	manyTasks = 50_000 // takes some ten milliseconds to count
	countKept = time.Second
)

// Count implements engine.Engine. It reads an index of the topic's tasks. For 50,000 tasks or
// more it keeps the answer for a second, or for ten times the time of the count if that is
// longer.
func (e *Engine) Count(ctx context.Context, topic string) (engine.Counts, error) {
	if err := e.enter(ctx); err != nil {
		return engine.Counts{}, err
	}
	defer e.use.RUnlock()
	t, err := existing(ctx, e.reader, topic)
	if err != nil {
		return engine.Counts{}, e.wrap("counting", err)
	}
	begin := time.Now()
	e.mu.Lock()
	last := e.counted[t.no]
	e.mu.Unlock()
	if begin.Before(last.until) {
		return last.counts, nil
	}
	counts, err := count(ctx, e.reader, t)
	took := time.Since(begin)
	if err != nil || counts.Pending+counts.Running+counts.Done+counts.Dead+counts.Removed < manyTasks {
		return counts, e.wrap("counting", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.counted, func(_ int64, old counted) bool { return old.until.Before(begin) }) // of dropped topics, too
	e.counted[t.no] = counted{counts, time.Now().Add(max(countKept, 10*took))}
	return counts, nil
}

// countQuery reads the action times of those tasks only that may be due.
const countQuery = "SELECT state, count(*), sum(at <= ?2 AND due <= ?2), coalesce(min(CASE WHEN at <= ?2 AND due <= ?2 THEN max(at, due) END), 0)" +
	" FROM hw_tasks WHERE topic = ?1 GROUP BY state"

func count(ctx context.Context, s session, t *topic) (counts engine.Counts, err error) {
	at := now()
	err = each(ctx, s, countQuery, []any{t.no, at}, func(rows *sql.Rows) error {
		var state engine.State
		var all, due, first int64
		if err := rows.Scan(&state, &all, &due, &first); err != nil {
			return err
		}
		counts.Add(state, all)
		if state == engine.Pending && due > 0 {
			counts.Due, counts.Lag = due, time.Duration(at-first)*time.Millisecond
		}
		return nil
	})
	return counts, err
}

// place is the end of a page, in the order of the index.
type place struct{ at, seq int64 }

func (p place) String() string { return cursor.Write(p.at, strconv.FormatInt(p.seq, 10)) }

// parsePlace reads a cursor. An empty cursor is before everything.
func parsePlace(text string) (place, error) {
	at, rest, err := cursor.Read(text)
	p := place{at, -1}
	if err != nil || text == "" {
		return p, err
	}
	if p.seq, err = strconv.ParseInt(rest, 10, 64); err != nil || p.String() != text {
		return p, fmt.Errorf("%w: cursor %.100q, must be the Next of a page", engine.ErrArgument, text)
	}
	return p, nil
}

// List implements engine.Engine. Its pages are in the order of Until over all slots.
func (e *Engine) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	if err := query.Check(); err != nil {
		return engine.Page{}, err
	}
	limit := cmp.Or(query.Limit, 100)
	from, err := parsePlace(query.Cursor)
	if err != nil {
		return engine.Page{}, err
	}
	if err := e.enter(ctx); err != nil {
		return engine.Page{}, err
	}
	defer e.use.RUnlock()
	t, err := topicOf(ctx, e.reader, query.Topic)
	if err != nil || t == nil {
		return engine.Page{}, e.wrap("listing tasks", err)
	}
	page, err := list(ctx, e.reader, t, query, from, limit)
	return page, e.wrap("listing tasks", err)
}

const (
	listQuery = "SELECT " + columns + " FROM hw_tasks WHERE topic = ?1 AND state = ?2 AND (at, seq) > (?3, ?4) ORDER BY at, seq LIMIT ?5 + 0"

	// listPendingQuery lists moved tasks at their new times. So it must look at all tasks filed
	// before the page. After the page's start it takes the first ?5 filed tasks, and looks at no
	// task filed after the latest of their times.
	listPendingQuery = "SELECT " + columns + " FROM hw_tasks WHERE topic = ?1 AND state = ?2 AND at <= (" +
		"SELECT CASE WHEN count(*) < ?5 THEN 9223372036854775807 ELSE max(due) END FROM (" +
		"SELECT max(at, due) AS due FROM hw_tasks WHERE topic = ?1 AND state = ?2 AND at > ?3 ORDER BY at, seq LIMIT ?5 + 0))" +
		" AND (max(at, due), seq) > (?3, ?4) ORDER BY max(at, due), seq LIMIT ?5 + 0"
)

func list(ctx context.Context, s session, t *topic, query engine.Query, from place, limit int) (page engine.Page, err error) {
	var last place
	bytes := 0
	text := listQuery
	if query.State == engine.Pending {
		text = listPendingQuery
	}
	if query.OmitPayload {
		text = strings.Replace(text, columns, briefColumns, 1)
	}
	err = each(ctx, s, text, []any{t.no, int64(query.State), from.at, from.seq, limit + 1}, func(rows *sql.Rows) error {
		r, err := scanTask(rows, t.Name)
		if err != nil {
			return err
		}
		if bytes += len(r.Payload); len(page.Tasks) == limit || bytes > engine.MaxPageBytes {
			page.Next = last.String()
			return errEnough
		}
		page.Tasks = append(page.Tasks, r.Task)
		last = place{r.at, r.seq}
		return nil
	})
	return page, err
}

// upcomingQuery merges both states, each in the order of the index. A task moved to a later time
// keeps its earlier place there.
func upcomingQuery(condition string) string {
	half := func(state, time string) string {
		return "SELECT id, version, " + time + ", at, seq FROM hw_tasks WHERE topic = ?1 AND state = " + state +
			" AND (at, seq) > (?2, ?3) AND at < ?4 AND " + time + " < ?4" + condition
	}
	return half("1", "max(at, due)") + " UNION ALL " + half("2", "at") + " ORDER BY at, seq LIMIT ?5 + 0"
}

// Upcoming implements engine.Truth. The earliest tasks come first, over all slots. Moved tasks
// come at their earlier times.
func (e *Engine) Upcoming(ctx context.Context, topic string, slots []int, until time.Time, cursor string, limit int) (page engine.UpcomingPage, err error) {
	from, err := parsePlace(cursor)
	if err != nil {
		return page, err
	}
	if limit < 1 {
		return page, fmt.Errorf("%w: limit %d of a page, must be positive", engine.ErrArgument, limit)
	}
	if err := e.enter(ctx); err != nil {
		return page, err
	}
	defer e.use.RUnlock()
	t, err := existing(ctx, e.reader, topic)
	if err != nil {
		return page, e.wrap("reading what is due soon", err)
	}
	if cursor == "" {
		_ = e.refilePassed(ctx, t, until) // the page is right without it
	}
	condition, args := inSlots(t, slots)
	var last place
	err = each(ctx, e.reader, upcomingQuery(numbered(condition, 6)), append([]any{t.no, from.at, from.seq, engine.Millis(until), limit + 1}, args...), func(rows *sql.Rows) error {
		if len(page.Wanted) == limit {
			page.Next, page.Until = last.String(), time.UnixMilli(last.at)
			return nil
		}
		var w engine.Wanted
		var at int64
		err := rows.Scan(&w.ID, &w.Version, &at, &last.at, &last.seq)
		w.At = time.UnixMilli(at)
		page.Wanted = append(page.Wanted, w)
		return err
	})
	return page, e.wrap("reading what is due soon", err)
}

// refilePassed files tasks at their later times if their earlier ones have passed, and the later ones do not come
// before until. Else each scan would read them again.
func (e *Engine) refilePassed(ctx context.Context, t *topic, until time.Time) error {
	const query = "SELECT seq FROM (SELECT seq, due FROM hw_tasks WHERE topic = ? AND state = 1 AND at <= ? ORDER BY at, seq LIMIT ? + 0) WHERE due >= ?"
	args := []any{t.no, now(), lookAhead, engine.Millis(until)}
	moved, err := integers(ctx, e.reader, query, args...)
	if err != nil || len(moved) == 0 {
		return err
	}
	return e.write(ctx, func(s session) error {
		moved, err := integers(context.Background(), s, query, args...) // they may have changed meanwhile
		if err == nil {
			err = fileAtDue(context.Background(), s, moved)
		}
		return err
	})
}
