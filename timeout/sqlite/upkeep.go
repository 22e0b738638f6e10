package sqlite

import (
	"context"
	"errors"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

// kept is a topic as Upkeep sees it.
type kept struct {
	id      int64
	slots   int
	retain  int64
	dropped bool
	grown   *string // up to which id tasks have been given new slots
}

// Upkeep is timeout.Engine's. The term is not looked at: two at the same time do the same.
func (e *Engine) Upkeep(ctx context.Context, _ int64) (more bool, err error) {
	var topics []kept
	err = e.read(ctx, func(s *session) error {
		return s.each(`SELECT id, slots, retain, name IS NULL, grown FROM {topics}`, nil, func(scan func(...any) error) (bool, error) {
			var k kept
			err := scan(&k.id, &k.slots, &k.retain, &k.dropped, &k.grown)
			topics = append(topics, k)
			return true, err
		})
	})
	if err != nil {
		return false, err
	}
	steps := []func(*session) (bool, error){e.keepLog}
	for _, k := range topics {
		if k.dropped {
			steps = append(steps, k.drop)
			continue
		}
		steps = append(steps, k.expire, k.stepBack)
		if k.grown != nil {
			steps = append(steps, k.deal)
		}
	}
	for _, step := range steps {
		again := false
		werr := e.write(ctx, func(s *session) (err error) {
			again, err = step(s)
			return err
		})
		err = errors.Join(err, werr) // what fails for one topic holds up no other
		more = more || again
		if ctx.Err() != nil {
			break
		}
	}
	return more, err
}

// keepLog deletes executions that were kept for their time.
func (e *Engine) keepLog(s *session) (more bool, err error) {
	n, err := s.exec(`DELETE FROM {executions} WHERE (topic, id, lease) IN (SELECT topic, id, lease FROM {executions} WHERE ended <= ?1 ORDER BY ended LIMIT ?2)`,
		clock()-timeout.CeilMillis(e.cfg.KeepLog), sqlkit.Batch)
	return n == sqlkit.Batch, err
}

// expire deletes tasks that were kept for their time. They are listed slot by slot, so it
// looks at the first ones of each.
func (k kept) expire(s *session) (more bool, err error) {
	var ids []string
	for slot := range k.slots {
		for _, state := range []timeout.State{timeout.Done, timeout.Removed} {
			err := s.each(selectPick, []any{k.id, state, slot, clock() - k.retain, sqlkit.Batch - len(ids)}, func(scan func(...any) error) (bool, error) {
				var entry sqlkit.Entry
				err := scan(&entry.At, &entry.ID)
				ids = append(ids, entry.ID)
				return true, err
			})
			if err != nil {
				return false, err
			}
		}
		if len(ids) == sqlkit.Batch {
			break
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	list, err := jsonArray(ids)
	if err != nil {
		return false, err
	}
	return len(ids) == sqlkit.Batch, s.forget(k.id, list)
}

// stepBack shortens leases that end later than they are long, which only happens where the
// clock was stepped back.
func (k kept) stepBack(s *session) (more bool, err error) {
	now := clock()
	for slot := range k.slots {
		_, err = s.exec(`UPDATE {tasks} SET at = ?3 + span WHERE topic = ?1 AND state = 2 AND slot = ?2 AND at > ?3 AND at > ?3 + span`, k.id, slot, now)
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// deal gives tasks the slots that they have since the topic has grown.
func (k kept) deal(s *session) (more bool, err error) {
	var last *string
	_, err = s.one(`SELECT max(id) FROM (SELECT id FROM {tasks} WHERE topic = ?1 AND id > ?2 ORDER BY id LIMIT ?3)`, []any{k.id, *k.grown, sqlkit.Batch}, &last)
	if err != nil {
		return false, err
	}
	if last != nil {
		_, err = s.exec(`UPDATE {tasks} SET slot = hash & ?4 WHERE topic = ?1 AND id > ?2 AND id <= ?3 AND slot <> hash & ?4`, k.id, *k.grown, *last, k.slots-1)
		if err != nil {
			return false, err
		}
	}
	// Where the topic has grown again meanwhile, it begins anew.
	_, err = s.exec(`UPDATE {topics} SET grown = ?3 WHERE id = ?1 AND grown = ?2 AND slots = ?4`, k.id, *k.grown, last, k.slots)
	return last != nil, err
}

// drop deletes tasks of a topic that was dropped, then the topic.
func (k kept) drop(s *session) (more bool, err error) {
	for _, text := range []string{
		`DELETE FROM {executions} WHERE (topic, id, lease) IN (SELECT topic, id, lease FROM {executions} WHERE topic = ?1 LIMIT ?2)`,
		`DELETE FROM {tasks} WHERE (topic, id) IN (SELECT topic, id FROM {tasks} WHERE topic = ?1 LIMIT ?2)`,
	} {
		if n, err := s.exec(text, k.id, sqlkit.Batch); err != nil || n == sqlkit.Batch {
			return true, err
		}
	}
	if _, err := s.exec(`DELETE FROM {fences} WHERE topic = ?`, k.id); err != nil {
		return false, err
	}
	_, err = s.exec(`DELETE FROM {topics} WHERE id = ?`, k.id)
	return false, err
}
