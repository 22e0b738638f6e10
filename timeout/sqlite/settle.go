package sqlite

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

// held is a task as it is settled.
type held struct {
	lease, version int64
	attempts       int
	node           string
}

const selectHeld = `SELECT t.id, t.lease, t.version, t.attempts, t.node
	FROM json_each(?2) AS asked CROSS JOIN {tasks} AS t ON t.topic = ?1 AND t.id = asked.value WHERE t.state = 2`

// settle does what outcomes say, of those whose lease is the last one.
func (s *session) settle(t topic, ask timeout.Ask, from, to int, settled []bool) error {
	if from == to {
		return nil
	}
	outcomes := ask.Settle[from:to]
	ids := make([]string, len(outcomes))
	for i := range outcomes {
		ids[i] = outcomes[i].Token.ID
	}
	list, err := jsonArray(ids)
	if err != nil {
		return err
	}
	running := make(map[string]held, len(ids))
	err = s.each(selectHeld, []any{t.id, list}, func(scan func(...any) error) (bool, error) {
		var id string
		var h held
		err := scan(&id, &h.lease, &h.version, &h.attempts, &h.node)
		running[id] = h
		return true, err
	})
	if err != nil {
		return err
	}
	now := clock()
	var gone []string
	for i := range outcomes {
		o := &outcomes[i]
		h, ok := running[o.Token.ID]
		if settled[from+i] = ok && h.lease == o.Token.Lease; !settled[from+i] {
			continue
		}
		delete(running, o.Token.ID) // a lease is settled once
		if o.As == timeout.Done && t.retain == 0 {
			gone = append(gone, o.Token.ID)
			continue
		}
		if err := s.settleOne(t, o, h, now); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if list, err = jsonArray(gone); err != nil {
		return err
	}
	return s.forget(t.id, list)
}

// settleText keeps the error of an earlier attempt where the last one is done, or was not
// begun.
const settleText = `UPDATE {tasks} SET state = ?3, at = ?4, slot = hash & ?5, lease = 0, span = 0, attempts = ?6,
	error = CASE WHEN ?7 = '' AND (?3 = 3 OR ?8) THEN error ELSE ?7 END, logged = logged OR NOT ?8
	WHERE topic = ?1 AND id = ?2`

func (s *session) settleOne(t topic, o *timeout.Outcome, h held, now int64) error {
	at, attempts, refund := now, h.attempts, o.Refund && o.As == timeout.Pending
	if o.As == timeout.Pending {
		at = sqlkit.At(sqlkit.When(time.Time{}, o.After), now)
	}
	if refund {
		attempts = max(attempts-1, 0)
	}
	failure := sqlkit.Clip(o.Error, timeout.MaxError)
	if o.As == timeout.Done {
		failure = ""
	}
	if _, err := s.exec(settleText, t.id, o.Token.ID, o.As, at, t.slots-1, attempts, failure, refund); err != nil {
		return err
	}
	if refund {
		return nil
	}
	_, err := s.exec(insertLog, t.id, o.Token.ID, h.lease, h.version, h.attempts, h.node,
		sqlkit.Started(o.Started), o.Took.Nanoseconds(), o.As, failure, now)
	return err
}

const insertLog = `INSERT OR REPLACE INTO {executions} (topic, id, lease, version, attempt, node, started, took, state, error, ended)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)`

// logLate writes down the attempts whose leases have ended.
func (s *session) logLate(t topic, tasks []timeout.Task, now int64) error {
	for _, task := range tasks {
		as := timeout.Pending
		if task.Attempts >= t.attempts {
			as = timeout.Dead
		}
		if _, err := s.exec(`INSERT OR REPLACE INTO {executions} (topic, id, lease, version, attempt, node, started, took, state, error, ended)
			SELECT topic, id, lease, version, attempts, node, at - span, (?3 - at + span) * 1000000, ?4, ?5, ?3
			FROM {tasks} WHERE topic = ?1 AND id = ?2`, t.id, task.ID, now, as, sqlkit.LeaseEnded); err != nil {
			return err
		}
		if _, err := s.exec(`UPDATE {tasks} SET logged = 1 WHERE topic = ?1 AND id = ?2`, t.id, task.ID); err != nil {
			return err
		}
	}
	return nil
}

// Executions is timeout.Log's. A task that is gone has none.
func (e *Engine) Executions(ctx context.Context, key timeout.Key, limit int) ([]timeout.Execution, error) {
	executions := []timeout.Execution{}
	err := e.read(ctx, func(s *session) error {
		return s.each(`SELECT version, attempt, node, started, took, state, error FROM {executions}
			WHERE topic = (SELECT id FROM {topics} WHERE name = ?1) AND id = ?2 ORDER BY lease DESC LIMIT ?3`,
			[]any{key.Topic, key.ID, limit}, func(scan func(...any) error) (bool, error) {
				var x timeout.Execution
				var started int64
				err := scan(&x.Version, &x.Attempt, &x.Node, &started, &x.Took, &x.As, &x.Error)
				x.Started = sqlkit.Time(started)
				executions = append(executions, x)
				return true, err
			})
	})
	return executions, err
}
