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
	return call(ctx, e, "counting", func() (engine.Counts, error) {
		t, err := existing(ctx, e.reader, topic)
		if err != nil {
			return engine.Counts{}, err
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
			return counts, err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		maps.DeleteFunc(e.counted, func(_ int64, old counted) bool { return old.until.Before(begin) }) // of dropped topics, too
		e.counted[t.no] = counted{counts, time.Now().Add(max(countKept, 10*took))}
		return counts, nil
	})
}

// countQuery reads the action times of those tasks only that may be due.
const countQuery = "SELECT state, count(*), sum(at <= ?2 AND due <= ?2), coalesce(min(CASE WHEN at <= ?2 AND due <= ?2 THEN max(at, due) END), 0)" +
	" FROM hw_tasks WHERE topic = ?1 GROUP BY state"

func count(ctx context.Context, s *session, t *topic) (counts engine.Counts, err error) {
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

// position is the end of a page, in the order of the index.
type position struct{ at, seq int64 }

func (p position) String() string { return cursor.Write(p.at, strconv.FormatInt(p.seq, 10)) }

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.at, other.at), cmp.Compare(p.seq, other.seq))
}

// parsePosition reads a cursor. An empty cursor is before everything.
func parsePosition(text string) (position, error) {
	at, rest, err := cursor.Read(text)
	p := position{at, -1}
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
	from, err := parsePosition(query.Cursor)
	if err != nil {
		return engine.Page{}, err
	}
	query.Limit = cmp.Or(query.Limit, 100)
	return call(ctx, e, "listing tasks", func() (engine.Page, error) {
		t, err := topicOf(ctx, e.reader, query.Topic)
		if err != nil || t == nil {
			return engine.Page{}, err
		}
		page, moved, err := list(ctx, e.reader, t, query, from)
		if err != nil || !moved {
			return page, err
		}
		for range refileRounds - 1 { // the look above is one, too
			moved, err := e.refile(ctx, movedQuery, t.no, int64(engine.Pending), from.at, from.seq, max(query.Limit, chunk))
			if err != nil {
				return engine.Page{}, err
			}
			if moved == 0 {
				break
			}
		}
		page, _, err = list(ctx, e.reader, t, query, from)
		return page, err
	})
}

// pageQuery begins in the index at its cursor. For "(at, seq) > (?3, ?4)" it would begin at the first task of that time.
func pageQuery(columns string) string {
	return "SELECT " + columns + " FROM hw_tasks WHERE topic = ?1 AND state = ?2 AND at = ?3 AND seq > ?4" +
		" UNION ALL SELECT " + columns + " FROM hw_tasks WHERE topic = ?1 AND state = ?2 AND at > ?3 ORDER BY at, seq LIMIT ?5 + 0"
}

var (
	listQuery  = pageQuery(columns)
	movedQuery = "SELECT seq FROM (" + pageQuery("seq, at, due") + ") WHERE due > at"

	// briefListQuery has the sizes of the payloads in their places. SQLite knows these without reading them.
	briefListQuery = strings.ReplaceAll(listQuery, "payload", "length(payload)")
)

// list returns a page in the order of the index. It ends before the first moved task, and tells of it: the task comes later.
func list(ctx context.Context, s *session, t *topic, query engine.Query, from position) (page engine.Page, moved bool, err error) {
	bytes, last, text := 0, from, listQuery
	if query.OmitPayload {
		text = briefListQuery
	}
	err = each(ctx, s, text, []any{t.no, int64(query.State), from.at, from.seq, query.Limit + 1}, func(rows *sql.Rows) error {
		r, err := scanTask(rows, t.Name)
		if err != nil {
			return err
		}
		bytes += len(r.Payload)
		if moved = r.Until.UnixMilli() != r.at; moved || len(page.Tasks) == query.Limit || bytes > engine.MaxPageBytes {
			page.Next = last.String()
			return errEnough
		}
		page.Tasks, last = append(page.Tasks, r.Task), position{r.at, r.seq}
		return nil
	})
	return page, moved, err
}

// scanQuery merges both states, each in the order of the index. A task moved to a later time
// keeps its earlier position there.
func scanQuery(condition string) string {
	half := func(state, time string) string {
		return "SELECT id, version, " + time + ", at, seq FROM hw_tasks WHERE topic = ?1 AND state = " + state +
			" AND (at, seq) > (?2, ?3) AND at < ?4 AND " + time + " < ?4" + condition
	}
	return half("1", "max(at, due)") + " UNION ALL " + half("2", "at") + " ORDER BY at, seq LIMIT ?5 + 0"
}

// ScanBefore implements engine.Primary. The earliest tasks come first, over all slots. Moved tasks
// come at their earlier times.
func (e *Engine) ScanBefore(ctx context.Context, topic string, slots []int, until time.Time, cursor string, limit int) (page engine.ScanPage, err error) {
	from, err := parsePosition(cursor)
	if err != nil {
		return page, err
	}
	if limit < 1 {
		return page, fmt.Errorf("%w: limit %d of a page, must be positive", engine.ErrArgument, limit)
	}
	return call(ctx, e, "scanning a topic", func() (page engine.ScanPage, err error) {
		t, err := existing(ctx, e.reader, topic)
		if err != nil {
			return page, err
		}
		if cursor == "" {
			// Tasks whose earlier times have passed are filed at their later ones. Else each scan would read them again.
			_, _ = e.refile(ctx, "SELECT seq FROM (SELECT seq, due FROM hw_tasks WHERE topic = ? AND state = 1 AND at <= ? ORDER BY at, seq LIMIT ? + 0) WHERE due >= ?",
				t.no, now(), lookAhead, engine.Millis(until)) // the page is right without it
		}
		condition, args := inSlots(t, slots, t.no, from.at, from.seq, engine.Millis(until), limit+1)
		var last position
		err = each(ctx, e.reader, scanQuery(condition), args, func(rows *sql.Rows) error {
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
		return page, err
	})
}

// refile files moved tasks found by a query for their numbers, and returns how many there are.
func (e *Engine) refile(ctx context.Context, query string, args ...any) (int, error) {
	moved, err := column[int64](ctx, e.reader, query, args...)
	for part := range slices.Chunk(moved, chunk) {
		if err == nil {
			err = e.write(ctx, func(s *session) error { return fileAtDue(context.Background(), s, part) })
		}
	}
	return len(moved), err
}
