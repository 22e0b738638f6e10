package sqlite

import (
	"context"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

// topic is what the tables have of a topic.
type topic struct {
	id       int64
	slots    int
	attempts int
	retain   int64 // milliseconds
	paused   bool
	settings string
}

const selectTopic = `SELECT id, slots, attempts, retain, paused, settings FROM {topics} WHERE name = ?1`

// topic reads a topic. It is ErrNotFound where there is none.
func (s *session) topic(name string) (t topic, err error) {
	found, err := s.one(selectTopic, []any{name}, &t.id, &t.slots, &t.attempts, &t.retain, &t.paused, &t.settings)
	if err == nil && !found {
		err = sqlkit.NoTopic(name)
	}
	return t, err
}

const insertTopic = `INSERT INTO {topics} (name, slots, attempts, retain, paused, settings)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6)`

// updateTopic has Upkeep deal tasks over the new slots, if there are more.
const updateTopic = `UPDATE {topics} SET slots = ?2, attempts = ?3, retain = ?4, paused = ?5, settings = ?6,
	grown = CASE WHEN slots < ?2 THEN '' ELSE grown END WHERE name = ?1`

// SetTopic is timeout.Engine's.
func (e *Engine) SetTopic(ctx context.Context, asked timeout.Topic, onlyNew bool) (kept timeout.Topic, err error) {
	err = e.write(ctx, func(s *session) error {
		there, err := s.settings(asked.Name)
		if err != nil {
			return err
		}
		kept = asked.WithDefaults()
		how := insertTopic
		if there != nil {
			if kept = *there; onlyNew {
				return nil
			}
			if kept, err = sqlkit.ChangeTopic(*there, asked); err != nil {
				return err
			}
			how = updateTopic
		}
		text, err := sqlkit.WriteTopic(kept)
		if err != nil {
			return err
		}
		_, err = s.exec(how, kept.Name, kept.Slots, kept.Attempts(), timeout.CeilMillis(kept.Retain), kept.Paused, text)
		return err
	})
	return kept, err
}

// settings returns a topic, or nil.
func (s *session) settings(name string) (*timeout.Topic, error) {
	text := ""
	found, err := s.one(`SELECT settings FROM {topics} WHERE name = ?`, []any{name}, &text)
	if err != nil || !found {
		return nil, err
	}
	there, err := sqlkit.ReadTopic(text)
	return &there, err
}

// Topics is timeout.Engine's.
func (e *Engine) Topics(ctx context.Context) (topics []timeout.Topic, err error) {
	topics = []timeout.Topic{}
	err = e.read(ctx, func(s *session) error {
		return s.each(`SELECT settings FROM {topics} WHERE name IS NOT NULL ORDER BY name`, nil, func(scan func(...any) error) (bool, error) {
			text := ""
			if err := scan(&text); err != nil {
				return false, err
			}
			t, err := sqlkit.ReadTopic(text)
			topics = append(topics, t)
			return true, err
		})
	})
	return topics, err
}

// DropTopic is timeout.Engine's. The tasks are not to be seen any more at once, and are
// deleted by Upkeep.
func (e *Engine) DropTopic(ctx context.Context, name string) error {
	return e.write(ctx, func(s *session) error {
		dropped, err := s.exec(`UPDATE {topics} SET name = NULL WHERE name = ?`, name)
		if err == nil && dropped == 0 {
			err = sqlkit.NoTopic(name)
		}
		return err
	})
}
