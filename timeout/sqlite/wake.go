package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	wakeLook = 100 * time.Millisecond // between two looks for changes of other connections
	wakeRest = 250 * time.Millisecond // after a change: busy writers must not make looking expensive
	wakeSoon = 5 * time.Second        // a center that listens finds later tasks by itself
)

// Wake implements engine.Waker. SQLite counts the changes of other connections (PRAGMA
// data_version). Heartbeats and Ready are changes, too, so Wake also looks whether anybody has taken a
// number. Then it wakes the topics whose first task waits for an earlier time than before, and those
// with a task due within five seconds: a center that listens asks as often by itself. A program with
// the file to itself is not woken by its own changes, because its center knows of them. If two centers
// share one Engine, its own changes wake both. Besides, Wake looks for ended leases 25 times a second.
func (e *Engine) Wake(ctx context.Context, wake func(topic string), ended func(key engine.Key)) error {
	e.wakers.Add(1)
	defer e.wakers.Add(-1)
	seen, err := e.changes(ctx, changes{})
	if err != nil {
		return err
	}
	first, err := e.first(ctx)
	if err != nil {
		return err
	}
	_, last, err := e.endedSince(ctx, "")
	if err != nil {
		return err
	}
	wake("")
	listening := time.NewTicker(endedLook)
	defer listening.Stop()
	for look := time.After(wakeLook); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-listening.C:
			var keys []engine.Key
			if keys, last, err = e.endedSince(ctx, last); err != nil && ctx.Err() == nil {
				return err
			}
			for _, key := range keys {
				ended(key)
			}
			continue
		case <-look:
		}
		latest, err := e.changes(ctx, seen)
		pause := wakeLook
		if err == nil && (latest.number != seen.number || latest.own != seen.own) {
			pause = wakeRest
			before, soon := first, now()+wakeSoon.Milliseconds()
			first, err = e.first(ctx)
			for topic, at := range first {
				if earlier, known := before[topic]; at <= soon || at != none && (!known || at < earlier) {
					wake(topic)
				}
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		seen = latest
		look = time.After(pause)
	}
}

const firstQuery = "SELECT name, coalesce((SELECT at FROM hw_tasks WHERE topic = t.no AND state = 1 ORDER BY at LIMIT 1), ?1) FROM hw_topics t WHERE name IS NOT NULL"

// first returns for which time the first task of each topic waits, by the times of the index.
func (e *Engine) first(ctx context.Context) (map[string]int64, error) {
	return call(ctx, e, "listening", func() (map[string]int64, error) { return times(ctx, e.reader, firstQuery, none) })
}

// changes differs after each change unknown to a center.
type changes struct {
	others int64 // version of the file
	number int64 // last number taken, as of that version or later
	own    int64
}

// changes returns the latest changes. It reads the number only after a new change of other
// connections.
func (e *Engine) changes(ctx context.Context, before changes) (changes, error) {
	return call(ctx, e, "listening", func() (c changes, err error) {
		if c.own = before.own; e.wakers.Load() > 1 {
			c.own = e.changed.Load()
		}
		if c.others, err = e.version(ctx); err != nil || c.others == before.others {
			c.number = before.number
			return c, err
		}
		_, err = one(ctx, e.reader, "SELECT value FROM hw_meta WHERE name = 'number'", nil, &c.number)
		return c, err
	})
}

// version returns a number. It differs after each commit of another connection.
func (e *Engine) version(ctx context.Context) (version int64, err error) {
	if err := e.lock.take(ctx); err != nil {
		return 0, err
	}
	defer e.lock.free()
	_, err = one(context.Background(), e.writer, "PRAGMA data_version", nil, &version)
	return version, err
}

// peekQuery reads the time of the first task of each topic, in any slot. It takes the times of
// the index, and a moved task is due later.
const peekQuery = "SELECT name, max(coalesce(CAST(unixepoch(config ->> 'paused_until', 'subsec') * 1000 AS INTEGER), 0), min(" +
	"coalesce((SELECT at FROM hw_tasks WHERE topic = t.no AND state = 1 ORDER BY at LIMIT 1), ?1), " +
	"coalesce((SELECT at FROM hw_tasks WHERE topic = t.no AND state = 2 ORDER BY at LIMIT 1), ?1))) " +
	"FROM hw_topics t WHERE name IN (SELECT value FROM json_each(?2))"

// Peek implements engine.Peeker. It looks at all slots of each topic.
func (e *Engine) Peek(ctx context.Context, peeks []engine.Peek) ([]time.Duration, error) {
	return call(ctx, e, "looking when tasks are due", func() ([]time.Duration, error) {
		names := make([]string, len(peeks))
		for i, p := range peeks {
			names[i] = p.Topic
		}
		now := now()
		first, err := times(ctx, e.reader, peekQuery, none, array(names))
		all := make([]time.Duration, len(peeks))
		for i, name := range names {
			if at, found := first[name]; at == none {
				all[i] = engine.NothingDue
			} else if found { // a missing topic has zero
				all[i] = engine.Wait(at - now)
			}
		}
		return all, err
	})
}

// times reads the times of topics.
func times(ctx context.Context, s *session, query string, args ...any) (map[string]int64, error) {
	all := make(map[string]int64)
	err := each(ctx, s, query, args, func(rows *sql.Rows) error {
		var name string
		var at int64
		err := rows.Scan(&name, &at)
		all[name] = at
		return err
	})
	return all, err
}
