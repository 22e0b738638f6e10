package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// fresh is the time after a read of a topic in which the engine uses it without another read.
const fresh = time.Second

// topic is a topic as an engine has read it.
type topic struct {
	engine.Topic
	no   int32
	read time.Time

	// busy means a full last batch: as many tasks as it could have. Then Lease takes the next
	// batch without a peek.
	busy atomic.Bool

	frontier *frontier
}

// topics are the topics used by the engine.
type topics struct {
	mu    sync.Mutex
	known map[string]*topic
}

// get returns a topic read less than fresh ago, or nil.
func (ts *topics) get(name string) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.known[name]; t != nil && time.Since(t.read) < fresh {
		return t
	}
	return nil
}

func (ts *topics) put(t *topic) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if before := ts.known[t.Name]; before != nil {
		t.busy.Store(before.busy.Load())
		if before.no == t.no {
			t.frontier = before.frontier
		}
	}
	ts.known[t.Name] = t
}

func (ts *topics) forget(name string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.known, name)
}

// keep forgets all other topics than these, which were just read: other processes have dropped them.
func (ts *topics) keep(read []*topic) {
	there := make(map[string]bool, len(read))
	for _, t := range read {
		there[t.Name] = true
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	maps.DeleteFunc(ts.known, func(name string, _ *topic) bool { return !there[name] })
}

// find returns the topics of some names, without the missing ones.
func (e *Engine) find(ctx context.Context, exec executor, names ...string) (map[string]*topic, error) {
	found := make(map[string]*topic, len(names))
	var missing []string
	for _, name := range names {
		if t := e.topics.get(name); t != nil {
			found[name] = t
		} else {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	read, err := e.readTopics(ctx, exec, missing)
	if err != nil {
		return nil, err
	}
	for _, t := range read {
		found[t.Name] = t
		if !exec.foreign { // a topic made in the caller's transaction may be rolled back
			e.topics.put(t)
		}
	}
	for _, name := range missing {
		if found[name] == nil {
			e.topics.forget(name)
		}
	}
	return found, nil
}

// must is find for one topic. A missing one is ErrNotFound.
func (e *Engine) must(ctx context.Context, name string) (*topic, error) {
	found, err := e.find(ctx, e.direct(), name)
	if err != nil {
		return nil, err
	}
	if found[name] == nil {
		return nil, notFound(name)
	}
	return found[name], nil
}

func notFound(name string) error { return fmt.Errorf("%w: topic %q", engine.ErrNotFound, name) }

// readTopics reads the topics of some names.
func (e *Engine) readTopics(ctx context.Context, exec executor, names []string) ([]*topic, error) {
	var read []*topic
	err := exec.send(ctx, "reading topics", func(batch *pgx.Batch) {
		e.queueTopics(batch, names, &read)
	})
	return read, err
}

func (e *Engine) queueTopics(batch *pgx.Batch, names []string, read *[]*topic) {
	batch.Queue(e.sql.Topics, names).Query(func(rows pgx.Rows) (err error) {
		*read, err = pgx.CollectRows(rows, scanTopic)
		return err
	})
}

func scanTopic(row pgx.CollectableRow) (*topic, error) {
	t := &topic{read: time.Now(), frontier: newFrontier()}
	var config []byte
	if err := row.Scan(&t.no, &t.Name, &config); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(config, &t.Topic); err != nil {
		return nil, fmt.Errorf("config of topic %s: %w", t.Name, err)
	}
	return t, nil
}

// SetTopic implements engine.Engine.
func (e *Engine) SetTopic(ctx context.Context, wanted engine.Topic, onlyNew bool, was ...engine.Topic) (engine.Topic, error) {
	var kept engine.Topic
	err := e.inTx(ctx, "setting topic "+wanted.Name, func(tx pgx.Tx) (err error) {
		kept, err = e.setTopic(ctx, tx, wanted, onlyNew, was)
		return err
	})
	e.topics.forget(wanted.Name)
	return kept, err
}

func (e *Engine) setTopic(ctx context.Context, tx pgx.Tx, wanted engine.Topic, onlyNew bool, was []engine.Topic) (engine.Topic, error) {
	for {
		there, now, err := e.lockTopic(ctx, tx, wanted.Name)
		if err != nil {
			return engine.Topic{}, err
		}
		kept, changes, err := wanted.In(there.Topic, now, onlyNew, was...)
		switch {
		case !changes:
			return kept, err
		case there.Name != "":
			return e.changeTopic(ctx, tx, there.no, kept)
		}
		config, err := json.Marshal(kept)
		if err != nil {
			return engine.Topic{}, err
		}
		made, err := tx.Exec(ctx, `INSERT INTO `+quote(e.schema)+`.hw_topics (name, paused, config) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING`,
			kept.Name, kept.Paused, string(config))
		if err != nil || made.RowsAffected() == 1 { // otherwise somebody has just made it
			return kept, err
		}
	}
}

// lockTopic reads a topic and locks it for a change in the transaction. It returns the clock after that. A missing topic has no
// name.
func (e *Engine) lockTopic(ctx context.Context, tx pgx.Tx, name string) (t *topic, now int64, err error) {
	rows, _ := tx.Query(ctx, `SELECT no, name, config FROM `+quote(e.schema)+`.hw_topics WHERE name = $1 FOR UPDATE`, name)
	if t, err = pgx.CollectExactlyOneRow(rows, scanTopic); errors.Is(err, pgx.ErrNoRows) {
		t, err = new(topic), nil
	}
	if err == nil {
		err = tx.QueryRow(ctx, e.sql.Now).Scan(&now)
	}
	return t, now, err
}

func (e *Engine) changeTopic(ctx context.Context, tx pgx.Tx, no int32, kept engine.Topic) (engine.Topic, error) {
	config, err := json.Marshal(kept)
	if err != nil {
		return engine.Topic{}, err
	}
	_, err = tx.Exec(ctx, `UPDATE `+quote(e.schema)+`.hw_topics SET paused = $2, config = $3 WHERE no = $1`, no, kept.Paused, string(config))
	return kept, err
}

// Pause implements engine.Engine. Processes of a version before PausedUntil take the topic for paused until somebody resumes it,
// and it stays so if they change it.
func (e *Engine) Pause(ctx context.Context, name string, paused bool, until time.Time) (engine.Topic, error) {
	var kept engine.Topic
	err := e.inTx(ctx, "pausing topic "+name, func(tx pgx.Tx) error {
		there, now, err := e.lockTopic(ctx, tx, name)
		if err == nil && there.Name == "" {
			err = notFound(name)
		}
		if err != nil {
			return err
		}
		there.Paused, there.PausedUntil = paused, until
		kept, err = e.changeTopic(ctx, tx, there.no, there.At(now))
		return err
	})
	e.topics.forget(name)
	return kept, err
}

// Topics implements engine.Engine. A server without changes, such as a standby, is an error, although
// it could answer: a center asks for the topics at each heartbeat, and its node is not ready then.
func (e *Engine) Topics(ctx context.Context) ([]engine.Topic, error) {
	var read []*topic
	var mode mode
	var now int64
	err := e.transact(ctx, "reading topics", func(batch *pgx.Batch) {
		batch.Queue(askMode).QueryRow(func(row pgx.Row) error { return row.Scan(&mode.standby, &mode.readOnly) })
		e.queueTopics(batch, nil, &read)
		batch.Queue(e.sql.Now).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	})
	if err == nil {
		err = mode.check()
	}
	if err != nil {
		return nil, err
	}
	e.topics.keep(read)
	all := make([]engine.Topic, len(read))
	for i, t := range read {
		all[i] = t.At(now)
	}
	return all, nil
}

// DropTopic implements engine.Engine. Nobody can find the topic's tasks from then on. Maintain deletes
// them.
func (e *Engine) DropTopic(ctx context.Context, name string) error {
	dropped := int64(0)
	err := e.transact(ctx, "dropping topic "+name, func(batch *pgx.Batch) {
		batch.Queue(e.sql.Drop, name).Exec(count64(&dropped))
	})
	e.topics.forget(name)
	if err == nil && dropped == 0 {
		return notFound(name)
	}
	if err == nil {
		e.notifier.tell(payloads([]engine.Key{{Topic: name}})...)
	}
	return err
}
