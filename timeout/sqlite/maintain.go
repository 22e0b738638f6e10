package sqlite

import (
	"context"
	"database/sql"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The statements of Maintain are for all topics: one for each topic costs more. The arguments are lists for json_each,
// with a list for each topic or state, of the numbers that stand in the condition.
const (
	isEnded     = "topic = t.value ->> 0 AND state = t.value ->> 1 AND (at, seq) <= (t.value ->> 2, t.value ->> 3)"
	isLogged    = "topic = t.value ->> 0 AND at <= t.value ->> 1"
	endedQuery  = "SELECT seq FROM json_each(?) AS t CROSS JOIN hw_tasks ON " + isEnded
	loggedQuery = "SELECT no FROM json_each(?) AS t CROSS JOIN hw_executions ON " + isLogged
	leasedQuery = "SELECT seq FROM hw_topics CROSS JOIN hw_tasks ON topic = no AND state = 2 AND at > ? + span"
)

// Maintain implements engine.Engine. It writes nothing if there is nothing to do.
func (e *Engine) Maintain(ctx context.Context) (engine.Purged, error) {
	return call(ctx, e, "maintenance", func() (purged engine.Purged, err error) {
		all, err := topics(ctx, e.reader)
		if err != nil {
			return purged, err
		}
		var ended [][4]int64  // number of the topic, state, and the last position to delete
		var logged [][2]int64 // number of the topic, and the last time to delete
		names := make(map[int64]string, len(all))
		at := now()
		for _, t := range all {
			dead, err := e.lastDead(ctx, t, at)
			if err != nil {
				return purged, err
			}
			last := at - engine.CeilMillis(t.Retain)
			ended = append(ended, [4]int64{t.no, int64(engine.Done), last, math.MaxInt64}, [4]int64{t.no, int64(engine.Removed), last, math.MaxInt64},
				[4]int64{t.no, int64(engine.Dead), dead.at, dead.seq})
			logged = append(logged, [2]int64{t.no, at - engine.CeilMillis(t.WithDefaults().RetainLog)})
			names[t.no] = t.Name
		}
		for _, work := range []struct {
			many int // with so many rows done there may be more to do
			do   func() (int, error)
		}{
			{chunk, func() (int, error) {
				return e.eachOf(ctx, "hw_tasks", isEnded, array(ended), func(some string) (int, error) { return e.deleteEnded(ctx, some, names, &purged) })
			}},
			{chunk, func() (int, error) {
				return e.eachOf(ctx, "hw_executions", isLogged, array(logged), func(some string) (int, error) {
					return e.deleteSome(ctx, "hw_executions", "no", loggedQuery, some)
				})
			}},
			{chunk, func() (int, error) { return e.bringBack(ctx) }},
			{1, func() (int, error) { return e.clear(ctx) }},
		} {
			done, err := work.do()
			if err != nil {
				return purged, err
			}
			purged.More = purged.More || done >= work.many
		}
		return purged, nil
	})
}

// lastDead returns the position of the last dead task to delete: it is too old, or one too many.
func (e *Engine) lastDead(ctx context.Context, t *topic, at int64) (position, error) {
	topic := t.WithDefaults()
	last, surplus := position{at - engine.CeilMillis(topic.RetainDead), math.MaxInt64}, position{}
	if topic.MaxDead < 0 {
		return last, nil
	}
	found, err := one(ctx, e.reader, "SELECT at, seq FROM hw_tasks WHERE topic = ? AND state = 4 ORDER BY at DESC, seq DESC LIMIT 1 OFFSET ? + 0",
		[]any{t.no, topic.MaxDead}, &surplus.at, &surplus.seq)
	if found && surplus.compare(last) > 0 {
		last = surplus
	}
	return last, err
}

// fewTopics is the greatest number of lists, of topics or of their states, in one transaction of Maintain. One that
// looks at very many of them would hold up everybody.
const fewTopics = 64

// eachOf calls do for those of the lists that have rows, a few at a time. Their order is random, or a busy topic would always
// come before others. It returns the greatest number of rows of a call.
func (e *Engine) eachOf(ctx context.Context, table, condition, all string, do func(some string) (int, error)) (most int, err error) {
	lists, err := column[string](ctx, e.reader, "SELECT value FROM json_each(?) AS t WHERE EXISTS (SELECT 1 FROM "+table+" WHERE "+condition+")", all)
	rand.Shuffle(len(lists), func(i, j int) { lists[i], lists[j] = lists[j], lists[i] })
	for some := range slices.Chunk(lists, fewTopics) {
		done := 0
		if err == nil {
			done, err = do("[" + strings.Join(some, ",") + "]")
		}
		most = max(most, done)
	}
	return most, err
}

// deleteEnded deletes up to a chunk of ended tasks and their logs, the earliest of each topic and state first. It returns
// their number.
func (e *Engine) deleteEnded(ctx context.Context, ended string, names map[int64]string, purged *engine.Purged) (int, error) {
	type gone struct {
		topic int64
		state engine.State
		id    string
	}
	all, err := within(ctx, e.write, func(ctx context.Context, s *session) ([]gone, error) {
		all, err := collect(ctx, s, "DELETE FROM hw_tasks WHERE seq IN ("+endedQuery+" LIMIT ? + 0) RETURNING topic, state, id", []any{ended, chunk},
			func(rows *sql.Rows) (g gone, err error) { return g, rows.Scan(&g.topic, &g.state, &g.id) })
		ids := make(map[int64][]string)
		for _, g := range all {
			ids[g.topic] = append(ids[g.topic], g.id)
		}
		for topic, some := range ids {
			if err == nil {
				err = forget(ctx, s, topic, some)
			}
		}
		return all, err
	})
	if err != nil {
		return 0, err
	}
	for _, g := range all {
		if g.state == engine.Dead {
			purged.AddDead(names[g.topic], 1)
		}
	}
	return len(all), nil
}

// bringBack shortens up to a chunk of leases with an end too far in the future: the clock was stepped back after
// they were made. The clock must be asked after all these leases were made. An earlier time would
// make new leases look like old ones, and shorten them.
func (e *Engine) bringBack(ctx context.Context) (int, error) {
	if some, err := column[int64](ctx, e.reader, leasedQuery+" LIMIT 1", now()); err != nil || len(some) == 0 {
		return 0, err
	}
	return within(ctx, e.write, func(ctx context.Context, s *session) (int, error) {
		at := now()
		return affect(ctx, s, "UPDATE hw_tasks SET at = ? + span WHERE seq IN ("+leasedQuery+" LIMIT ? + 0)", at, at, chunk)
	})
}

// clear deletes a part of the dropped topics, or these topics themselves once they are empty. It returns the number of
// deleted rows.
func (e *Engine) clear(ctx context.Context) (int, error) {
	for _, some := range []struct{ table, key, query string }{
		{"hw_tasks", "seq", "SELECT seq FROM hw_topics CROSS JOIN hw_tasks ON topic = no WHERE name IS NULL"},
		{"hw_executions", "no", "SELECT x.no FROM hw_topics AS t CROSS JOIN hw_executions AS x ON x.topic = t.no WHERE name IS NULL"},
		{"hw_topics", "no", "SELECT no FROM hw_topics AS t WHERE name IS NULL AND NOT EXISTS (SELECT 1 FROM hw_tasks WHERE topic = t.no)" +
			" AND NOT EXISTS (SELECT 1 FROM hw_executions WHERE topic = t.no)"},
	} {
		if gone, err := e.deleteSome(ctx, some.table, some.key, some.query); err != nil || gone > 0 {
			return gone, err
		}
	}
	return 0, nil
}

// deleteSome deletes up to a chunk of rows found by a query for their keys, and returns their number.
func (e *Engine) deleteSome(ctx context.Context, table, key, query string, args ...any) (int, error) {
	if some, err := column[int64](ctx, e.reader, query+" LIMIT 1", args...); err != nil || len(some) == 0 {
		return 0, err
	}
	return within(ctx, e.write, func(ctx context.Context, s *session) (int, error) {
		return affect(ctx, s, "DELETE FROM "+table+" WHERE "+key+" IN ("+query+" LIMIT ? + 0)", append(args, chunk)...)
	})
}
