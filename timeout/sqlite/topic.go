package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// topic is a topic and its number in the tables.
type topic struct {
	no int64
	engine.Topic
}

// parseTopic returns the topic as it is now.
func parseTopic(no int64, config string) (*topic, error) {
	t := &topic{no: no}
	if err := json.Unmarshal([]byte(config), &t.Topic); err != nil {
		return nil, fmt.Errorf("configuration of topic number %d: %w", no, err)
	}
	t.Topic = t.At(now())
	return t, nil
}

// topicOf reads a topic. It returns nil if there is no such topic.
func topicOf(ctx context.Context, s *session, name string) (*topic, error) {
	var no int64
	var config string
	found, err := one(ctx, s, "SELECT no, config FROM hw_topics WHERE name = ?", []any{name}, &no, &config)
	if err != nil || !found {
		return nil, err
	}
	return parseTopic(no, config)
}

// existing is topicOf for a topic that has to be there: a missing one is ErrNotFound. With an error it returns no settings.
func existing(ctx context.Context, s *session, name string) (*topic, error) {
	t, err := topicOf(ctx, s, name)
	if t == nil {
		return new(topic), cmp.Or(err, noTopic(name))
	}
	return t, nil
}

func noTopic(name string) error { return fmt.Errorf("%w: topic %q", engine.ErrNotFound, name) }

// SetTopic implements engine.Engine.
func (e *Engine) SetTopic(ctx context.Context, wanted engine.Topic, onlyNew bool, was ...engine.Topic) (engine.Topic, error) {
	return call(ctx, e, "setting topic "+wanted.Name, func() (engine.Topic, error) {
		if onlyNew { // the usual case writes nothing
			if t, err := existing(ctx, e.reader, wanted.Name); !errors.Is(err, engine.ErrNotFound) {
				return t.Topic, err
			}
		}
		return within(ctx, e.write, func(ctx context.Context, s *session) (engine.Topic, error) {
			t, err := existing(ctx, s, wanted.Name)
			if err != nil && !errors.Is(err, engine.ErrNotFound) {
				return t.Topic, err
			}
			kept, changes, err := wanted.In(t.Topic, now(), onlyNew, was...)
			if !changes {
				return kept, err
			}
			return keep(ctx, s, kept)
		})
	})
}

// keep writes a topic.
func keep(ctx context.Context, s *session, topic engine.Topic) (engine.Topic, error) {
	config, err := json.Marshal(topic)
	if err != nil {
		return engine.Topic{}, err
	}
	_, err = s.ExecContext(ctx, "INSERT INTO hw_topics (name, config) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET config = excluded.config",
		topic.Name, string(config))
	if err == nil {
		_, err = numbers(ctx, s, 1) // wakes the other processes
	}
	return topic, err
}

// Pause implements engine.Engine.
func (e *Engine) Pause(ctx context.Context, name string, paused bool, until time.Time) (engine.Topic, error) {
	return transaction(ctx, e, "pausing topic "+name, func(ctx context.Context, s *session) (engine.Topic, error) {
		t, err := existing(ctx, s, name)
		if err != nil {
			return t.Topic, err
		}
		t.Paused, t.PausedUntil = paused, until
		return keep(ctx, s, t.At(now()))
	})
}

// Topics implements engine.Engine.
func (e *Engine) Topics(ctx context.Context) ([]engine.Topic, error) {
	return call(ctx, e, "reading topics", func() ([]engine.Topic, error) {
		all, err := topics(ctx, e.reader)
		kept := make([]engine.Topic, len(all))
		for i, t := range all {
			kept[i] = t.Topic
		}
		return kept, err
	})
}

// topics reads all topics, by name.
func topics(ctx context.Context, s *session) ([]*topic, error) {
	return collect(ctx, s, "SELECT no, config FROM hw_topics WHERE name IS NOT NULL ORDER BY name", nil, func(rows *sql.Rows) (*topic, error) {
		var no int64
		var config string
		if err := rows.Scan(&no, &config); err != nil {
			return nil, err
		}
		return parseTopic(no, config)
	})
}

// DropTopic implements engine.Engine. The topic is gone at once. Its tasks are deleted in many
// short transactions. If ctx ends before that, Maintain deletes the rest.
func (e *Engine) DropTopic(ctx context.Context, name string) error {
	_, err := call(ctx, e, "dropping topic "+name, func() (int, error) {
		left, err := within(ctx, e.write, func(ctx context.Context, s *session) (int, error) {
			dropped, err := affect(ctx, s, "UPDATE hw_topics SET name = NULL WHERE name = ?", name)
			if err == nil && dropped > 0 {
				err = tellEnded(ctx, s, []engine.Key{{Topic: name}})
			}
			return dropped, err
		})
		if err == nil && left == 0 {
			err = noTopic(name)
		}
		for left > 0 && err == nil && ctx.Err() == nil {
			if left, err = e.clear(ctx); ctx.Err() != nil {
				err = nil // the topic is gone
			}
		}
		return left, err
	})
	return err
}
