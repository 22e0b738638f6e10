package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Upkeep implements engine.Engine. It writes nothing if there is nothing to do.
func (e *Engine) Upkeep(ctx context.Context) (swept engine.Swept, err error) {
	if err := e.enter(ctx); err != nil {
		return swept, err
	}
	defer e.use.RUnlock()
	swept.More, err = e.upkeep(ctx, &swept)
	return swept, e.wrap("upkeep", err)
}

func (e *Engine) upkeep(ctx context.Context, swept *engine.Swept) (more bool, err error) {
	all, err := topics(ctx, e.reader)
	if err != nil {
		return false, err
	}
	first, err := e.oldest(ctx)
	if err != nil {
		return false, err
	}
	for _, t := range all {
		old := first[t.no]
		for _, state := range []engine.State{engine.Done, engine.Removed, engine.Dead} {
			retain := t.Retain
			if state == engine.Dead {
				retain = t.WithDefaults().RetainDead
			}
			last := now() - engine.CeilMillis(retain)
			if old.tasks[state] > last {
				continue
			}
			gone, err := e.deleteEnded(ctx, t, state, place{last, math.MaxInt64})
			if state == engine.Dead {
				swept.AddDead(t.Name, gone)
			}
			if err != nil {
				return false, err
			}
			more = more || gone == chunk
		}
		if old.tasks[engine.Running] != none {
			if err := e.bringBack(ctx, t); err != nil {
				return false, err
			}
		}
		if old.logged != none {
			last := now() - engine.CeilMillis(t.WithDefaults().RetainLog)
			left, err := e.deleteSome(ctx, "hw_executions", "no", "topic = ? AND at <= ?", t.no, last)
			if err != nil {
				return false, err
			}
			more = more || left
		}
	}
	left, err := e.deleteSurplus(ctx, all, swept)
	if err != nil {
		return false, err
	}
	more = more || left
	dropped, err := integers(ctx, e.reader, "SELECT no FROM hw_topics WHERE name IS NULL LIMIT 1")
	for _, no := range dropped {
		if _, err := e.clear(ctx, no); err != nil {
			return false, err
		}
		more = true
	}
	return more, err
}

// oldest has the first times of a topic: of its tasks by state, and of its log. A time is none if
// there is nothing.
type oldest struct {
	tasks  [engine.Removed + 1]int64
	logged int64
}

// oldestQuery reads oldest for all topics. One statement costs less than several for each topic.
var oldestQuery = fmt.Sprintf("SELECT t.no, "+strings.Repeat("coalesce((SELECT at FROM hw_tasks WHERE topic = t.no AND state = %d ORDER BY at LIMIT 1), ?1), ", 4)+
	"coalesce((SELECT at FROM hw_executions WHERE topic = t.no ORDER BY at LIMIT 1), ?1) FROM hw_topics t WHERE name IS NOT NULL",
	engine.Done, engine.Removed, engine.Dead, engine.Running)

// oldest returns the first times by the number of the topic.
func (e *Engine) oldest(ctx context.Context) (map[int64]oldest, error) {
	first := make(map[int64]oldest)
	err := each(ctx, e.reader, oldestQuery, []any{none}, func(rows *sql.Rows) error {
		var no int64
		var o oldest
		err := rows.Scan(&no, &o.tasks[engine.Done], &o.tasks[engine.Removed], &o.tasks[engine.Dead], &o.tasks[engine.Running], &o.logged)
		first[no] = o
		return err
	})
	return first, err
}

// deleteEnded deletes up to a chunk of ended tasks and their logs. It deletes the earliest first,
// and none after last. It returns the number of tasks.
func (e *Engine) deleteEnded(ctx context.Context, t *topic, state engine.State, last place) (gone int, err error) {
	const query = "SELECT seq FROM hw_tasks WHERE topic = ? AND state = ? AND (at, seq) <= (?, ?) ORDER BY at, seq LIMIT ? + 0"
	args := []any{t.no, int64(state), last.at, last.seq, chunk}
	if some, err := integers(ctx, e.reader, query, args...); err != nil || len(some) == 0 {
		return 0, err
	}
	var ids []string
	err = e.write(ctx, func(s session) error {
		ctx := context.Background()
		ids = nil
		err := each(ctx, s, "DELETE FROM hw_tasks WHERE seq IN ("+query+") RETURNING id", args, func(rows *sql.Rows) error {
			ids = append(ids, "")
			return rows.Scan(&ids[len(ids)-1])
		})
		if err != nil {
			return err
		}
		return forget(ctx, s, t.no, ids)
	})
	if err != nil {
		return 0, err
	}
	return len(ids), nil
}

// surplusShare is the pause after a search for surplus dead tasks, as a multiple of the search's
// time.
const surplusShare = 50

// deleteSurplus deletes the surplus dead tasks, the oldest first. The search reads as many
// entries as a topic may have dead tasks, so not every call searches.
func (e *Engine) deleteSurplus(ctx context.Context, all []*topic, swept *engine.Swept) (more bool, err error) {
	began := time.Now()
	e.mu.Lock()
	pause := began.Before(e.surplusAt)
	e.mu.Unlock()
	if pause {
		return false, nil
	}
	for _, t := range all {
		var last place
		surplus, err := t.MaxDead >= 0, error(nil)
		if surplus {
			surplus, err = one(ctx, e.reader, "SELECT at, seq FROM hw_tasks WHERE topic = ? AND state = 4 ORDER BY at DESC, seq DESC LIMIT 1 OFFSET ? + 0",
				[]any{t.no, t.WithDefaults().MaxDead}, &last.at, &last.seq)
		}
		gone := 0
		if surplus && err == nil {
			gone, err = e.deleteEnded(ctx, t, engine.Dead, last)
			swept.AddDead(t.Name, gone)
		}
		if err != nil {
			return false, err
		}
		more = more || gone == chunk
	}
	if !more {
		e.mu.Lock()
		now := time.Now()
		e.surplusAt = now.Add(surplusShare * now.Sub(began))
		e.mu.Unlock()
	}
	return more, nil
}

// bringBack shortens leases with an end too far in the future: the clock was stepped back after
// they were made. The clock must be asked after all these leases were made. An earlier time would
// make new leases look like old ones, and shorten them.
func (e *Engine) bringBack(ctx context.Context, t *topic) error {
	var last int64 // latest start of a lease
	_, err := one(ctx, e.reader, "SELECT coalesce(max(at - span), 0) FROM hw_tasks WHERE topic = ? AND state = 2", []any{t.no}, &last)
	if err != nil || last <= now() {
		return err
	}
	return e.write(ctx, func(s session) error {
		_, err := s.ExecContext(context.Background(),
			"UPDATE hw_tasks SET at = ?2 + span WHERE seq IN (SELECT seq FROM hw_tasks WHERE topic = ?1 AND state = 2 AND at > ?2 + span LIMIT ?3 + 0)",
			t.no, now(), chunk)
		return err
	})
}

// clear deletes a part of a dropped topic, and at last the topic itself.
func (e *Engine) clear(ctx context.Context, no int64) (more bool, err error) {
	for _, table := range []struct{ name, key string }{{"hw_tasks", "seq"}, {"hw_executions", "no"}} {
		if left, err := e.deleteSome(ctx, table.name, table.key, "topic = ?", no); err != nil || left {
			return left, err
		}
	}
	return false, e.write(ctx, func(s session) error {
		_, err := s.ExecContext(context.Background(), "DELETE FROM hw_topics WHERE no = ? AND name IS NULL", no)
		return err
	})
}

// deleteSome deletes up to a chunk of rows, and reports whether there may be more.
func (e *Engine) deleteSome(ctx context.Context, table, key, condition string, args ...any) (more bool, err error) {
	if some, err := integers(ctx, e.reader, "SELECT "+key+" FROM "+table+" WHERE "+condition+" LIMIT 1", args...); err != nil || len(some) == 0 {
		return false, err
	}
	query := "DELETE FROM " + table + " WHERE " + key + " IN (SELECT " + key + " FROM " + table + " WHERE " + condition + " LIMIT ? + 0)"
	err = e.write(ctx, func(s session) error {
		gone, err := affect(context.Background(), s, query, append(args, chunk)...)
		more = gone >= chunk
		return err
	})
	return more, err
}

func integers(ctx context.Context, s session, query string, args ...any) ([]int64, error) {
	var all []int64
	err := each(ctx, s, query, args, func(rows *sql.Rows) error {
		all = append(all, 0)
		return rows.Scan(&all[len(all)-1])
	})
	return all, err
}
