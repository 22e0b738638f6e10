package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Move implements engine.Engine.
func (e *Engine) Move(ctx context.Context, moves []engine.Move) ([]engine.Answer, error) {
	return inChunks(ctx, e, e.write, "moving tasks", moves, move)
}

// Remove implements engine.Engine.
func (e *Engine) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	return inChunks(ctx, e, e.write, "removing tasks", removals, remove)
}

// Replay implements engine.Engine.
func (e *Engine) Replay(ctx context.Context, keys []engine.Key) ([]engine.Answer, error) {
	return inChunks(ctx, e, e.write, "replaying tasks", keys, replay)
}

// change calls do for each existing task, topic by topic, with its place in keys. If a key comes
// again, do gets the same found, with its own changes.
func change(ctx context.Context, s session, keys []engine.Key, do func(t *topic, i int, f *found) error, end func(*topic) error) error {
	return byTopic(ctx, s, keys, func(k engine.Key) string { return k.Topic }, func(t *topic, places []int) error {
		if t == nil {
			return nil
		}
		ids := make([]string, len(places))
		for n, i := range places {
			ids[n] = keys[i].ID
		}
		there, err := find(ctx, s, t.no, ids)
		if err != nil {
			return err
		}
		for _, i := range places {
			if f := there[keys[i].ID]; f != nil && f.state != engine.None {
				if err := do(t, i, f); err != nil {
					return err
				}
			}
		}
		return end(t)
	})
}

// A move to a later time touches no index: a waiting task is due when both at and due have passed.
const (
	moveLater   = "UPDATE hw_tasks SET due = ?1, version = ?2 WHERE topic = ?3 AND id = ?4 AND state = 1 AND at <= ?1 AND ?5 IN (0, version)"
	moveEarlier = "UPDATE hw_tasks SET at = ?1, due = ?1, version = ?2 WHERE topic = ?3 AND id = ?4 AND state = 1 AND ?5 IN (0, version)"
)

// move has a statement for each task. One for all of them is no faster: it has to keep the result of its
// FROM, and the old pages, for a second pass.
func move(ctx context.Context, s session, moves []engine.Move) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(moves))
	version, err := numbers(ctx, s, len(moves))
	if err != nil {
		return nil, err
	}
	at := now()
	err = byTopic(ctx, s, moves, func(m engine.Move) string { return m.Topic }, func(t *topic, places []int) error {
		if t == nil {
			return nil
		}
		var others []string
		for _, i := range places {
			due, version := moves[i].DueAt(at), version+int64(i)
			moved, err := affect(ctx, s, moveLater, due, version, t.no, moves[i].ID, moves[i].Version)
			if err == nil && moved == 0 {
				moved, err = affect(ctx, s, moveEarlier, due, version, t.no, moves[i].ID, moves[i].Version)
			}
			if err != nil {
				return err
			}
			if moved == 0 {
				others = append(others, moves[i].ID)
				continue
			}
			answers[i] = engine.Answer{Was: engine.Pending, Version: version, Due: time.UnixMilli(due)}
		}
		if len(others) == 0 {
			return nil
		}
		there, err := find(ctx, s, t.no, others)
		for _, i := range places {
			if answers[i].Was == engine.None {
				answers[i] = there[moves[i].ID].answer()
			}
		}
		return err
	})
	return answers, err
}

func remove(ctx context.Context, s session, removals []engine.Removal) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(removals))
	keys := make([]engine.Key, len(removals))
	for i, r := range removals {
		keys[i] = r.Key
	}
	at := now()
	var gone []int64
	var logged []string
	err := change(ctx, s, keys, func(t *topic, i int, f *found) error {
		if !removals[i].Removes(f.state, f.version) {
			answers[i] = f.answer()
			return nil
		}
		answers[i].Was = f.state
		gone = append(gone, f.seq)
		f.state = engine.Removed
		if t.Retain == 0 {
			f.state = engine.None
			if f.logged {
				logged = append(logged, f.id)
			}
		}
		return nil
	}, func(t *topic) error {
		defer func() { gone, logged = nil, nil }()
		return end(ctx, s, t, engine.Removed, gone, logged, at)
	})
	return answers, err
}

// end ends tasks. If the topic does not retain them, end deletes them, and the logs of the ids in
// logged.
func end(ctx context.Context, s session, t *topic, as engine.State, seqs []int64, logged []string, at int64) error {
	if len(seqs) == 0 {
		return nil
	}
	if as == engine.Dead || t.Retain > 0 {
		_, err := s.ExecContext(ctx, "UPDATE hw_tasks SET state = ?, at = ?, lease = 0 WHERE seq IN (SELECT value FROM json_each(?))",
			int64(as), at, array(seqs))
		return err
	}
	if _, err := s.ExecContext(ctx, "DELETE FROM hw_tasks WHERE seq IN (SELECT value FROM json_each(?))", array(seqs)); err != nil {
		return err
	}
	return forget(ctx, s, t.no, logged)
}

func replay(ctx context.Context, s session, keys []engine.Key) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(keys))
	version, err := numbers(ctx, s, len(keys))
	if err != nil {
		return nil, err
	}
	at := now()
	err = change(ctx, s, keys, func(_ *topic, i int, f *found) error {
		answers[i] = f.answer()
		if f.state != engine.Dead {
			return nil
		}
		f.state, f.at, f.due, f.version = engine.Pending, at, at, version+int64(i)
		answers[i].Version, answers[i].Due = f.version, time.UnixMilli(at)
		_, err := s.ExecContext(ctx, "UPDATE hw_tasks SET state = ?1, at = ?2, due = ?2, version = ?3, calls = calls + attempts, failures = failures + attempts, attempts = 0, lease = 0 WHERE seq = ?4",
			int64(engine.Pending), at, f.version, f.seq)
		return err
	}, func(*topic) error { return nil })
	return answers, err
}

// Get implements engine.Engine.
func (e *Engine) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.use.RUnlock()
	tasks := make([]engine.Task, len(keys))
	for i, key := range keys {
		tasks[i].Topic, tasks[i].ID = key.Topic, key.ID
	}
	err := byTopic(ctx, e.reader, keys, func(k engine.Key) string { return k.Topic }, func(t *topic, places []int) error {
		if t == nil {
			return nil
		}
		for part := range slices.Chunk(places, chunk) {
			if err := get(ctx, e.reader, t, tasks, part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, e.wrap("reading tasks", err)
	}
	return tasks, nil
}

// get reads the tasks at some places. All of them are of topic t.
func get(ctx context.Context, s session, t *topic, tasks []engine.Task, places []int) error {
	ids := make([]string, len(places))
	for n, i := range places {
		ids[n] = tasks[i].ID
	}
	there := make(map[string]engine.Task, len(places))
	err := each(ctx, s, "SELECT "+columns+" FROM hw_tasks WHERE topic = ? AND id IN (SELECT value FROM json_each(?))",
		[]any{t.no, array(ids)}, func(rows *sql.Rows) error {
			r, err := scanTask(rows, t.Name)
			there[r.ID] = r.Task
			return err
		})
	if err != nil {
		return err
	}
	for _, i := range places {
		if task, ok := there[tasks[i].ID]; ok {
			tasks[i] = task
		}
	}
	return nil
}
