package sqlite

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

// jsonArray writes what json_each reads.
func jsonArray[T any](list []T) (string, error) {
	text, err := json.Marshal(list)
	return string(text), err
}

const selectStates = `SELECT t.id, t.state, t.version, t.due
	FROM json_each(?2) AS asked CROSS JOIN {tasks} AS t ON t.topic = ?1 AND t.id = asked.value`

// states tells of those tasks that are there.
func (s *session) states(topic int64, ids []string, found func(id string, answer timeout.Answer)) error {
	list, err := jsonArray(ids)
	if err != nil {
		return err
	}
	return s.each(selectStates, []any{topic, list}, func(scan func(...any) error) (bool, error) {
		var id string
		var answer timeout.Answer
		var due int64
		if err := scan(&id, &answer.Was, &answer.Version, &due); err != nil {
			return false, err
		}
		answer.Due = sqlkit.Time(due)
		found(id, answer)
		return true, nil
	})
}

// Move is timeout.Engine's.
func (e *Engine) Move(ctx context.Context, moves []timeout.Move) ([]timeout.Answer, error) {
	return e.moveWith(moves, func(do func(*session) error) error { return e.write(ctx, do) })
}

func (e *Engine) moveWith(moves []timeout.Move, within func(func(*session) error) error) ([]timeout.Answer, error) {
	answers := make([]timeout.Answer, len(moves))
	key := func(i int) timeout.Key { return moves[i].Key }
	return answers, change(answers, key, within, func(s *session, t topic, index []int) error {
		number, err := s.numbers(len(index))
		if err != nil {
			return err
		}
		now := clock()
		for _, i := range index {
			if answers[i].Was != timeout.Pending {
				continue
			}
			number++
			due := moves[i].DueAt(now)
			answers[i].Version, answers[i].Due = number, sqlkit.Time(due)
			if _, err := s.exec(moveOne, t.id, moves[i].ID, due, number, t.slots-1); err != nil {
				return err
			}
		}
		return nil
	})
}

const moveOne = `UPDATE {tasks} SET at = ?3, due = ?3, version = ?4, slot = hash & ?5 WHERE topic = ?1 AND id = ?2`

// Remove is timeout.Engine's.
func (e *Engine) Remove(ctx context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	return e.removeWith(keys, func(do func(*session) error) error { return e.write(ctx, do) })
}

func (e *Engine) removeWith(keys []timeout.Key, within func(func(*session) error) error) ([]timeout.Answer, error) {
	answers := make([]timeout.Answer, len(keys))
	key := func(i int) timeout.Key { return keys[i] }
	return answers, change(answers, key, within, func(s *session, t topic, index []int) error {
		var ids []string
		for _, i := range index {
			if sqlkit.Live(answers[i].Was) {
				ids = append(ids, keys[i].ID)
				answers[i].Version, answers[i].Due = 0, sqlkit.NoTime
			}
		}
		list, err := jsonArray(ids)
		if err != nil || len(ids) == 0 {
			return err
		}
		if t.retain == 0 {
			return s.forget(t.id, list)
		}
		_, err = s.exec(retire, t.id, list, clock())
		return err
	})
}

const retire = `UPDATE {tasks} SET state = 5, at = ?3, lease = 0, span = 0
	WHERE topic = ?1 AND id IN (SELECT value FROM json_each(?2))`

// forget deletes tasks, and what the log has of them.
func (s *session) forget(topic int64, list string) error {
	_, err := s.exec(`DELETE FROM {executions} WHERE topic = ?1 AND id IN (SELECT t.id
		FROM json_each(?2) AS asked CROSS JOIN {tasks} AS t ON t.topic = ?1 AND t.id = asked.value WHERE t.logged)`, topic, list)
	if err != nil {
		return err
	}
	_, err = s.exec(`DELETE FROM {tasks} WHERE topic = ?1 AND id IN (SELECT value FROM json_each(?2))`, topic, list)
	return err
}

// Replay is timeout.Engine's.
func (e *Engine) Replay(ctx context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	answers := make([]timeout.Answer, len(keys))
	key := func(i int) timeout.Key { return keys[i] }
	within := func(do func(*session) error) error { return e.write(ctx, do) }
	return answers, change(answers, key, within, func(s *session, t topic, index []int) error {
		now := clock()
		for _, i := range index {
			if answers[i].Was != timeout.Dead {
				continue
			}
			answers[i].Due = sqlkit.Time(now)
			if _, err := s.exec(replayOne, t.id, keys[i].ID, now, t.slots-1); err != nil {
				return err
			}
		}
		return nil
	})
}

const replayOne = `UPDATE {tasks} SET state = 1, at = ?3, due = ?3, attempts = 0, node = '', error = '', slot = hash & ?4
	WHERE topic = ?1 AND id = ?2`

// change is what Move, Remove and Replay have in common: answers have what was there when do
// is called. A topic that is not there has no tasks.
func change(answers []timeout.Answer, key func(int) timeout.Key, within func(func(*session) error) error,
	do func(s *session, t topic, index []int) error,
) error {
	for _, group := range sqlkit.ByTopic(len(answers), key) {
		err := within(func(s *session) error {
			if _, err := s.numbers(0); err != nil { // a transaction that writes first
				return err
			}
			t, err := s.topic(group.Topic)
			if err != nil {
				return err
			}
			ids, where := group.IDs(key)
			if err := s.states(t.id, ids, func(id string, found timeout.Answer) { answers[where[id]] = found }); err != nil {
				return err
			}
			return do(s, t, group.Index)
		})
		if err != nil && !errors.Is(err, timeout.ErrNotFound) {
			return err
		}
	}
	return nil
}
