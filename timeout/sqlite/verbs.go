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

// change calls do for the existing tasks of each topic, with their indices. If a key comes again, do gets the same
// found, with its own changes.
func change[T any](ctx context.Context, s *session, things []T, keyOf func(T) engine.Key, do func(t *topic, indices []int, there []*found) error) error {
	return byTopic(ctx, s, things, keyOf, func(t *topic, indices []int, ids []string) error {
		if t == nil {
			return nil
		}
		all, err := find(ctx, s, t.no, ids)
		var existing []int
		var there []*found
		for n, i := range indices {
			if f := all[ids[n]]; f != nil {
				existing, there = append(existing, i), append(there, f)
			}
		}
		if err != nil || len(there) == 0 {
			return err
		}
		return do(t, existing, there)
	})
}

// A move to a later time touches no index: a waiting task is due when both at and due have passed.
const (
	moveLater   = "UPDATE hw_tasks SET due = ?1, version = ?2 WHERE topic = ?3 AND id = ?4 AND state = 1 AND at <= ?1 AND ?5 IN (0, version)"
	moveEarlier = "UPDATE hw_tasks SET at = ?1, due = ?1, version = ?2 WHERE topic = ?3 AND id = ?4 AND state = 1 AND ?5 IN (0, version)"
)

// move has a statement for each task. One for all of them is no faster: it has to keep the result of its
// FROM, and the old pages, for a second pass.
func move(ctx context.Context, s *session, moves []engine.Move) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(moves))
	version, err := numbers(ctx, s, len(moves))
	if err != nil {
		return nil, err
	}
	at := now()
	err = byTopic(ctx, s, moves, func(m engine.Move) engine.Key { return m.Key }, func(t *topic, indices []int, _ []string) error {
		if t == nil {
			return nil
		}
		var others []string
		for _, i := range indices {
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
		for _, i := range indices {
			if answers[i].Was == engine.None {
				answers[i] = there[moves[i].ID].answer()
			}
		}
		return err
	})
	return answers, err
}

func remove(ctx context.Context, s *session, removals []engine.Removal) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(removals))
	at := now()
	err := change(ctx, s, removals, func(r engine.Removal) engine.Key { return r.Key }, func(t *topic, indices []int, there []*found) error {
		var gone []int64
		var logged []string
		for n, f := range there {
			answer := &answers[indices[n]]
			if !removals[indices[n]].Removes(f.state, f.version) {
				*answer = f.answer()
				continue
			}
			answer.Was = f.state
			gone = append(gone, f.seq)
			if f.state = engine.Removed; t.Retain == 0 {
				f.state, f.version, f.due = engine.None, 0, 0
			}
			if f.logged {
				logged = append(logged, f.id)
			}
		}
		return end(ctx, s, t, engine.Removed, gone, logged, at)
	})
	if err == nil {
		err = tellEnded(ctx, s, engine.EndedByRemoval(removals, answers))
	}
	return answers, err
}

// end ends tasks. If the topic does not retain them, end deletes them, and the logs of the ids in
// logged.
func end(ctx context.Context, s *session, t *topic, as engine.State, seqs []int64, logged []string, at int64) error {
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

func replay(ctx context.Context, s *session, keys []engine.Key) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(keys))
	version, err := numbers(ctx, s, len(keys))
	if err != nil {
		return nil, err
	}
	at := now()
	err = change(ctx, s, keys, func(k engine.Key) engine.Key { return k }, func(_ *topic, indices []int, there []*found) error {
		for n, f := range there {
			answer := &answers[indices[n]]
			*answer = f.answer()
			if f.state != engine.Dead {
				continue
			}
			f.state, f.due, f.version = engine.Pending, at, version+int64(indices[n])
			answer.Version, answer.Due = f.version, time.UnixMilli(at)
			if _, err := s.ExecContext(ctx, "UPDATE hw_tasks SET state = ?1, at = ?2, due = ?2, version = ?3, calls = calls + attempts, failures = failures + attempts, attempts = 0, lease = 0 WHERE seq = ?4",
				int64(engine.Pending), at, f.version, f.seq); err != nil {
				return err
			}
		}
		return nil
	})
	return answers, err
}

// Get implements engine.Engine.
func (e *Engine) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	return call(ctx, e, "reading tasks", func() ([]engine.Task, error) {
		tasks := make([]engine.Task, len(keys))
		for i, key := range keys {
			tasks[i].Topic, tasks[i].ID = key.Topic, key.ID
		}
		return tasks, byTopic(ctx, e.reader, keys, func(k engine.Key) engine.Key { return k }, func(t *topic, indices []int, ids []string) error {
			if t == nil {
				return nil
			}
			there := make(map[string]engine.Task, len(indices))
			for part := range slices.Chunk(ids, chunk) {
				err := each(ctx, e.reader, "SELECT "+columns+" FROM hw_tasks WHERE topic = ? AND id IN (SELECT value FROM json_each(?))",
					[]any{t.no, array(part)}, func(rows *sql.Rows) error {
						r, err := scanTask(rows, t.Name)
						there[r.ID] = r.Task
						return err
					})
				if err != nil {
					return err
				}
			}
			for _, i := range indices {
				if task, ok := there[tasks[i].ID]; ok {
					tasks[i] = task
				}
			}
			return nil
		})
	})
}
