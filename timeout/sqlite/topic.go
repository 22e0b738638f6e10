package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// topic is a topic and its number in the tables.
type topic struct {
	no int64
	engine.Topic
}

func parseTopic(no int64, config string) (*topic, error) {
	t := &topic{no: no}
	if err := json.Unmarshal([]byte(config), &t.Topic); err != nil {
		return nil, fmt.Errorf("configuration of topic number %d: %w", no, err)
	}
	return t, nil
}

// topicOf reads a topic. It returns nil if there is no such topic.
func topicOf(ctx context.Context, s session, name string) (*topic, error) {
	var no int64
	var config string
	found, err := one(ctx, s, "SELECT no, config FROM hw_topics WHERE name = ?", []any{name}, &no, &config)
	if err != nil || !found {
		return nil, err
	}
	return parseTopic(no, config)
}

// existing is topicOf for a topic that has to be there: a missing one is ErrNotFound.
func existing(ctx context.Context, s session, name string) (*topic, error) {
	t, err := topicOf(ctx, s, name)
	if err == nil && t == nil {
		err = noTopic(name)
	}
	return t, err
}

func noTopic(name string) error { return fmt.Errorf("%w: topic %q", engine.ErrNotFound, name) }

// SetTopic implements engine.Engine.
func (e *Engine) SetTopic(ctx context.Context, wanted engine.Topic, onlyNew bool) (engine.Topic, error) {
	if err := e.enter(ctx); err != nil {
		return engine.Topic{}, err
	}
	defer e.use.RUnlock()
	if onlyNew { // the usual case writes nothing
		t, err := topicOf(ctx, e.reader, wanted.Name)
		if err != nil {
			return engine.Topic{}, e.wrap("reading topic "+wanted.Name, err)
		}
		if t != nil {
			return t.Topic, nil
		}
	}
	var kept engine.Topic
	err := e.write(ctx, func(s session) error {
		var err error
		kept, err = setTopic(context.Background(), s, wanted, onlyNew)
		return err
	})
	return kept, e.wrap("setting topic "+wanted.Name, err)
}

func setTopic(ctx context.Context, s session, wanted engine.Topic, onlyNew bool) (engine.Topic, error) {
	t, err := topicOf(ctx, s, wanted.Name)
	switch {
	case err != nil:
		return engine.Topic{}, err
	case t != nil && onlyNew:
		return t.Topic, nil
	case t != nil:
		if wanted, err = wanted.In(t.Topic); err != nil {
			return t.Topic, err
		}
	}
	return keep(ctx, s, wanted.WithDefaults())
}

// keep writes a topic.
func keep(ctx context.Context, s session, topic engine.Topic) (engine.Topic, error) {
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
func (e *Engine) Pause(ctx context.Context, name string, paused bool) (engine.Topic, error) {
	if err := e.enter(ctx); err != nil {
		return engine.Topic{}, err
	}
	defer e.use.RUnlock()
	var kept engine.Topic
	err := e.write(ctx, func(s session) error {
		t, err := existing(context.Background(), s, name)
		if err != nil {
			return err
		}
		t.Paused = paused
		kept, err = keep(context.Background(), s, t.Topic)
		return err
	})
	return kept, e.wrap("pausing topic "+name, err)
}

// Topics implements engine.Engine.
func (e *Engine) Topics(ctx context.Context) ([]engine.Topic, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.use.RUnlock()
	all, err := topics(ctx, e.reader)
	kept := make([]engine.Topic, len(all))
	for i, t := range all {
		kept[i] = t.Topic
	}
	return kept, e.wrap("reading topics", err)
}

// topics reads all topics, by name.
func topics(ctx context.Context, s session) ([]*topic, error) {
	var all []*topic
	err := each(ctx, s, "SELECT no, config FROM hw_topics WHERE name IS NOT NULL ORDER BY name", nil, func(rows *sql.Rows) error {
		var no int64
		var config string
		if err := rows.Scan(&no, &config); err != nil {
			return err
		}
		t, err := parseTopic(no, config)
		all = append(all, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// DropTopic implements engine.Engine. The topic is gone at once. Its tasks are deleted in many
// short transactions. If ctx ends before that, Upkeep deletes the rest.
func (e *Engine) DropTopic(ctx context.Context, name string) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.use.RUnlock()
	var t *topic
	err := e.write(ctx, func(s session) (err error) {
		if t, err = existing(context.Background(), s, name); err != nil {
			return err
		}
		_, err = s.ExecContext(context.Background(), "UPDATE hw_topics SET name = NULL WHERE no = ?", t.no)
		return err
	})
	if err == nil {
		e.mu.Lock()
		delete(e.counted, t.no)
		e.mu.Unlock()
	}
	for more := err == nil; more && err == nil && ctx.Err() == nil; {
		more, err = e.clear(ctx, t.no)
		if ctx.Err() != nil {
			err = nil // the topic is gone
		}
	}
	return e.wrap("dropping topic "+name, err)
}
