package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/origin"
)

// columns are the columns for scanTask.
const columns = "seq, id, state, at, due, version, attempts, lease, node, error, callback, payload, created, calls, failures"

// row is a stored task. Its at is the time in the index.
type row struct {
	engine.Task
	seq, at, lease int64
}

func scanTask(rows *sql.Rows, topic string) (row, error) {
	var r row
	var due, created int64
	var calls, failures int
	var callback []byte
	var payload any // or its size
	err := rows.Scan(&r.seq, &r.ID, &r.State, &r.at, &due, &r.Version, &r.Attempts, &r.lease, &r.Node, &r.Error, &callback, &payload,
		&created, &calls, &failures)
	if err != nil {
		return r, err
	}
	switch payload := payload.(type) {
	case []byte:
		r.Payload = payload
	case int64:
		r.PayloadBytes = int(payload)
	}
	r.Topic, r.Due, r.Until = topic, time.UnixMilli(due), time.UnixMilli(r.at)
	if r.State == engine.Pending {
		r.Until = time.UnixMilli(max(r.at, due))
	}
	if created > 0 {
		r.Created = time.UnixMilli(created)
	}
	r.Count(calls, failures)
	return r, origin.Read(callback, &r.Task)
}

// found is the part of an existing task that a verb, a lease or its end needs.
type found struct {
	seq, lease, version int64
	at, due             int64
	id, node            string
	state               engine.State
	attempts            int
	size                int  // of the payload, in bytes
	logged              bool // whether the log may have an attempt
}

// foundColumns are the columns for scanFound.
const foundColumns = "at, seq, state, due, id, version, lease, attempts, node, coalesce(length(payload), 0), attempts + calls > (state = 2) OR error <> ''"

func scanFound(rows *sql.Rows) (*found, error) {
	f := new(found)
	return f, rows.Scan(&f.at, &f.seq, &f.state, &f.due, &f.id, &f.version, &f.lease, &f.attempts, &f.node, &f.size, &f.logged)
}

// answer returns the answer of a verb that changes nothing.
func (f *found) answer() engine.Answer {
	if f == nil || f.state == engine.None {
		return engine.Answer{}
	}
	return engine.Answer{Was: f.state, Version: f.version, Due: time.UnixMilli(f.due)}
}

// find reads the existing tasks of a topic, by id.
func find(ctx context.Context, s *session, topic int64, ids []string) (map[string]*found, error) {
	all := make(map[string]*found)
	err := each(ctx, s, "SELECT "+foundColumns+" FROM hw_tasks WHERE topic = ? AND id IN (SELECT value FROM json_each(?))", []any{topic, array(ids)}, func(rows *sql.Rows) error {
		f, err := scanFound(rows)
		all[f.id] = f
		return err
	})
	return all, err
}

// numbers takes count numbers from the counter, and returns the first. The counter is never
// behind the clock, in microseconds. A power cut may take commits back, after others have seen
// their numbers.
func numbers(ctx context.Context, s *session, count int) (int64, error) {
	var last int64
	_, err := one(ctx, s, "UPDATE hw_meta SET value = max(value, ?) + ? WHERE name = 'number' RETURNING value",
		[]any{time.Now().UnixMicro(), count}, &last)
	return last - int64(count) + 1, err
}

// forget deletes the logs of tasks.
func forget(ctx context.Context, s *session, topic int64, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := s.ExecContext(ctx, "DELETE FROM hw_executions WHERE topic = ? AND id IN (SELECT value FROM json_each(?))", topic, array(ids))
	return err
}
