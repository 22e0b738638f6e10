package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
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

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.at, other.at), cmp.Compare(p.seq, other.seq))
}

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

// List implements engine.Engine. Its pages are in the order of Until over all slots. It files the moved tasks that it comes
// upon at their later times, so it may write. Among many of them, a page can have few tasks or none.
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
	var page engine.Page
	bytes := 0
	for rounds, look := 1, limit; ; rounds, look = rounds+1, max(limit, chunk) {
		l, err := list(ctx, e.reader, t, query, from, limit-len(page.Tasks), look, engine.MaxPageBytes-bytes)
		for part := range slices.Chunk(l.passed, chunk) {
			if err == nil {
				err = e.write(ctx, func(s session) error { return fileAtDue(context.Background(), s, part) })
			}
		}
		if err != nil {
			return engine.Page{}, e.wrap("listing tasks", err)
		}
		page.Tasks, bytes = append(page.Tasks, l.tasks...), bytes+l.bytes
		if !l.more {
			return page, nil
		}
		if from = l.end; len(page.Tasks) == limit || rounds == refileRounds || bytes > engine.MaxPageBytes-engine.MaxPayload {
			page.Next = from.String()
			return page, nil
		}
	}
}

// listQuery begins in the index at its cursor. For "(at, seq) > (?3, ?4)" it would begin at the first task of that time.
const listQuery = "SELECT " + columns + " FROM hw_tasks WHERE topic = ?1 AND state = ?2 AND at = ?3 AND seq > ?4" +
	" UNION ALL SELECT " + columns + " FROM hw_tasks WHERE topic = ?1 AND state = ?2 AND at > ?3 ORDER BY at, seq LIMIT ?5 + 0"

// briefListQuery has the sizes of the payloads in their places. SQLite knows these without reading them.
var briefListQuery = strings.ReplaceAll(listQuery, "payload", "length(payload)")

// listed is a part of a list.
type listed struct {
	tasks  []engine.Task
	bytes  int
	more   bool    // whether there may be more after end
	end    place   // of the part, in the index too
	passed []int64 // moved tasks: the index has them in the part, and they come after it
}

// list looks at up to look tasks in the order of the index, and returns at most limit of them, with at most so many bytes.
func list(ctx context.Context, s session, t *topic, query engine.Query, from place, limit, look, bytes int) (l listed, err error) {
	var found []row
	l.end = from
	text := listQuery
	if query.OmitPayload {
		text = briefListQuery
	}
	err = each(ctx, s, text, []any{t.no, int64(query.State), from.at, from.seq, look + 1}, func(rows *sql.Rows) error {
		r, err := scanTask(rows, t.Name)
		if err != nil {
			return err
		}
		if bytes -= len(r.Payload); len(found) == look || bytes < 0 {
			l.more = true
			return errEnough
		}
		found = append(found, r)
		l.end = place{r.at, r.seq}
		return nil
	})
	if err != nil {
		return l, err
	}
	until := func(r row) place { return place{r.Until.UnixMilli(), r.seq} }
	slices.SortFunc(found, func(a, b row) int { return until(a).compare(until(b)) })
	if len(found) > limit {
		if last := until(found[limit-1]); !l.more || last.compare(l.end) < 0 {
			l.more, l.end = true, last
		}
	}
	for _, r := range found {
		switch {
		case !l.more || until(r).compare(l.end) <= 0:
			l.tasks, l.bytes = append(l.tasks, r.Task), l.bytes+len(r.Payload)
		case place{r.at, r.seq}.compare(l.end) <= 0:
			l.passed = append(l.passed, r.seq)
		}
	}
	return l, nil
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

// Upcoming implements engine.Primary. The earliest tasks come first, over all slots. Moved tasks
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
	moved, err := integers(ctx, e.reader, "SELECT seq FROM (SELECT seq, due FROM hw_tasks WHERE topic = ? AND state = 1 AND at <= ? ORDER BY at, seq LIMIT ? + 0) WHERE due >= ?",
		t.no, now(), lookAhead, engine.Millis(until))
	if err != nil || len(moved) == 0 {
		return err
	}
	return e.write(ctx, func(s session) error { return fileAtDue(context.Background(), s, moved) })
}
