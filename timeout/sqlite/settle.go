package sqlite

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// holds reports whether the lease of a token is the last one of the task.
func (f *found) holds(token engine.Token) bool {
	return f != nil && f.state == engine.Running && f.lease == token.Lease
}

// settle settles leases. It reports for each whether it was the last lease of its task.
func settle(ctx context.Context, s *session, t *topic, outcomes []engine.Outcome, at int64) ([]bool, error) {
	settled := make([]bool, len(outcomes))
	if len(outcomes) == 0 {
		return settled, nil
	}
	ids := make([]string, len(outcomes))
	for i, outcome := range outcomes {
		ids[i] = outcome.Token.ID
	}
	there, err := find(ctx, s, t.no, ids)
	if err != nil {
		return nil, err
	}
	var done []int64
	var logged []string
	again := false
	for i, outcome := range outcomes {
		f := there[outcome.Token.ID]
		if !f.holds(outcome.Token) || outcome.Token.Topic != t.Name {
			continue
		}
		f.state = outcome.As // a second outcome with this token has no effect
		settled[i] = true
		if outcome.As != engine.Done {
			again = again || outcome.As == engine.Pending
			if err := fail(ctx, s, t, f, outcome, at); err != nil {
				return nil, err
			}
			continue
		}
		done = append(done, f.seq)
		if t.Retain > 0 {
			if err := remember(ctx, s, t, f, outcome, at); err != nil {
				return nil, err
			}
		} else if f.logged {
			logged = append(logged, f.id)
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
func fail(ctx context.Context, s *session, t *topic, f *found, outcome engine.Outcome, at int64) error {
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
		if outcome.Release {
			change, logs = "due = ?2, calls = calls + attempts - 1, failures = failures + attempts - 1, attempts = 0, node = '', error = ?3", false
		}
	case outcome.Release:
		change, logs = "attempts = attempts - 1, due = min(due, ?2)", false
		if state == engine.Dead {
			change += ", error = ?3"
		}
	}
	_, err := s.ExecContext(ctx, "UPDATE hw_tasks SET state = ?1, at = ?2, lease = 0, "+change+" WHERE seq = ?4", int64(state), until, outcome.Error, f.seq)
	if err != nil || !logs {
		return err
	}
	return remember(ctx, s, t, f, outcome, at)
}

// Extend implements engine.Engine.
func (e *Engine) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	span := engine.CeilMillis(lease)
	return inChunks(ctx, e, e.write, "extending leases", tokens, func(ctx context.Context, s *session, tokens []engine.Token) ([]bool, error) {
		answers := make([]bool, len(tokens))
		err := change(ctx, s, tokens, func(t engine.Token) engine.Key { return t.Key }, func(_ *topic, indices []int, there []*found) error {
			var seqs []int64
			for n, f := range there {
				if i := indices[n]; f.holds(tokens[i]) {
					answers[i] = true
					seqs = append(seqs, f.seq)
				}
			}
			if len(seqs) == 0 {
				return nil
			}
			_, err := s.ExecContext(ctx, "UPDATE hw_tasks SET at = ?, span = ? WHERE seq IN (SELECT value FROM json_each(?))", now()+span, span, array(seqs))
			return err
		})
		return answers, err
	})
}
