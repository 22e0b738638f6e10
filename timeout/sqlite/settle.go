package sqlite

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// held is a running task, found by a caller's token, or one whose lease has ended: then remember has no need of
// its lease and its topic.
type held struct {
	seq, lease int64
	topic, id  string
	version    int64
	attempts   int
	node       string
	logged     bool // whether the log may have an earlier attempt
}

// heldBy returns the running task of each token. It is nil if the token's lease is not the last
// one of its task. The tasks come first in the join, by their numbers: CROSS JOIN keeps that order.
func heldBy(ctx context.Context, s *session, tokens []engine.Token) ([]*held, error) {
	all := make([]*held, len(tokens))
	seqs := make([]int64, 0, len(tokens))
	for _, token := range tokens {
		if seq, err := strconv.ParseInt(token.Part, 10, 64); err == nil {
			seqs = append(seqs, seq)
		}
	}
	if len(seqs) == 0 {
		return all, nil
	}
	there := make(map[string]*held, len(seqs)) // by the tokens' Part
	err := each(ctx, s, "SELECT name, seq, id, lease, version, attempts, node, attempts + calls > 1 OR error <> '' FROM hw_tasks CROSS JOIN hw_topics ON no = topic WHERE seq IN (SELECT value FROM json_each(?)) AND state = 2 AND name IS NOT NULL",
		[]any{array(seqs)}, func(rows *sql.Rows) error {
			h := new(held)
			err := rows.Scan(&h.topic, &h.seq, &h.id, &h.lease, &h.version, &h.attempts, &h.node, &h.logged)
			there[strconv.FormatInt(h.seq, 10)] = h
			return err
		})
	for i, token := range tokens {
		h := there[token.Part]
		if h != nil && h.topic == token.Topic && h.id == token.ID && h.lease == token.Lease {
			all[i] = h
		}
	}
	return all, err
}

// settle settles leases. It reports for each whether it was the last lease of its task.
func settle(ctx context.Context, s *session, t *topic, outcomes []engine.Outcome, at int64) ([]bool, error) {
	settled := make([]bool, len(outcomes))
	if len(outcomes) == 0 {
		return settled, nil
	}
	tokens := make([]engine.Token, len(outcomes))
	for i, outcome := range outcomes {
		tokens[i] = outcome.Token
	}
	all, err := heldBy(ctx, s, tokens)
	if err != nil {
		return nil, err
	}
	var done []int64
	var logged []string
	again := false
	for i, h := range all {
		if h == nil || h.lease == 0 || h.topic != t.Name {
			continue
		}
		h.lease = 0 // a second outcome with this token has no effect
		settled[i] = true
		if outcomes[i].As != engine.Done {
			again = again || outcomes[i].As == engine.Pending
			if err := fail(ctx, s, t, h, outcomes[i], at); err != nil {
				return nil, err
			}
			continue
		}
		done = append(done, h.seq)
		if t.Retain > 0 {
			if err := remember(ctx, s, t, h, outcomes[i], at); err != nil {
				return nil, err
			}
		} else if h.logged {
			logged = append(logged, h.id)
		}
	}
	if again {
		if _, err := numbers(ctx, s, 1); err != nil { // wakes other processes
			return nil, err
		}
	}
	return settled, end(ctx, s, t, engine.Done, done, logged, at)
}

// fail settles a failed attempt, one that is released, or the last one of a run. Unless another run begins, the action
// time is not after the time of the next attempt, even if the clock was stepped back meanwhile. Otherwise the task
// would wait for the action time again.
func fail(ctx context.Context, s *session, t *topic, h *held, outcome engine.Outcome, at int64) error {
	state, until, logs, change := outcome.As, at, true, "due = min(due, ?2), error = ?3"
	if state == engine.Pending {
		until = outcome.DueAt(at)
	}
	switch {
	case state == engine.Pending && outcome.NewRun:
		change = "due = ?2, calls = calls + attempts, failures = failures + attempts - (?3 = ''), attempts = 0, node = '', error = ?3"
		if outcome.As = engine.Dead; outcome.Error == "" {
			outcome.As, logs = engine.Done, t.Retain > 0
		}
	case state == engine.Pending && outcome.Release:
		change, logs = "due = min(due, ?2), attempts = attempts - 1", false
	}
	_, err := s.ExecContext(ctx, "UPDATE hw_tasks SET state = ?1, at = ?2, lease = 0, "+change+" WHERE seq = ?4", int64(state), until, outcome.Error, h.seq)
	if err != nil || !logs {
		return err
	}
	return remember(ctx, s, t, h, outcome, at)
}

// Extend implements engine.Engine.
func (e *Engine) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	span := engine.CeilMillis(lease)
	return inChunks(ctx, e, e.write, "extending leases", tokens, func(ctx context.Context, s *session, tokens []engine.Token) ([]bool, error) {
		all, err := heldBy(ctx, s, tokens)
		answers := make([]bool, len(tokens))
		var seqs []int64
		for i, h := range all {
			if h != nil {
				answers[i] = true
				seqs = append(seqs, h.seq)
			}
		}
		if err != nil || len(seqs) == 0 {
			return answers, err
		}
		_, err = s.ExecContext(ctx, "UPDATE hw_tasks SET at = ?, span = ? WHERE seq IN (SELECT value FROM json_each(?))", now()+span, span, array(seqs))
		return answers, err
	})
}
