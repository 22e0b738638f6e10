package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

// Expire is timeout.Engine's. Where nothing is to be settled or due it only reads.
func (e *Engine) Expire(ctx context.Context, ask timeout.Ask) (timeout.Batch, error) {
	batch := timeout.Batch{Settled: make([]bool, len(ask.Settle))}
	for _, outcome := range ask.Settle {
		if outcome.Token.Topic != ask.Topic {
			return batch, fmt.Errorf("%w: token of topic %q to be settled with topic %q", timeout.ErrArgument, outcome.Token.Topic, ask.Topic)
		}
	}
	done := 0
	for len(ask.Settle)-done > sqlkit.Batch { // the rest goes with the first lease
		err := e.write(ctx, func(s *session) error {
			t, err := s.topic(ask.Topic)
			if err != nil {
				return err
			}
			return s.settle(t, ask, done, done+sqlkit.Batch, batch.Settled)
		})
		if err != nil {
			return timeout.Batch{}, err
		}
		done += sqlkit.Batch
	}
	if done == len(ask.Settle) {
		due := false
		err := e.read(ctx, func(s *session) (err error) {
			due, err = s.look(ask, &batch)
			return err
		})
		if err != nil || !due {
			return batch, err
		}
	}
	fenced := false
	for more := true; more; {
		var turn timeout.Batch
		err := e.write(ctx, func(s *session) error {
			turn = timeout.Batch{Settled: batch.Settled}
			t, err := s.topic(ask.Topic)
			if err != nil {
				return err
			}
			if err := s.settle(t, ask, done, len(ask.Settle), batch.Settled); err != nil {
				return err
			}
			if fenced, err = s.fence(t, ask); err != nil || fenced {
				turn.Now = sqlkit.Time(clock())
				return err
			}
			more, err = s.lease(t, ask, len(batch.Leased), &turn)
			return err
		})
		if err != nil {
			if len(batch.Leased) > 0 { // those must not be lost for the length of their lease
				return batch, nil
			}
			return timeout.Batch{}, err
		}
		done = len(ask.Settle)
		batch.Now, batch.Next = turn.Now, turn.Next
		batch.Leased = append(batch.Leased, turn.Leased...)
		batch.Died = append(batch.Died, turn.Died...)
		if fenced {
			return batch, fmt.Errorf("%w: term %d of topic %s", timeout.ErrFenced, ask.Term, ask.Topic)
		}
	}
	return batch, nil
}

// heads are the times of the first tasks of slots: of those that wait and those that run.
const selectHeads = `SELECT s.value,
	(SELECT at FROM {tasks} WHERE topic = ?1 AND state = 2 AND slot = s.value ORDER BY at LIMIT 1),
	(SELECT at FROM {tasks} WHERE topic = ?1 AND state = 1 AND slot = s.value ORDER BY at LIMIT 1)
	FROM json_each(?2) AS s`

// head is the first task of a state in a slot.
type head struct {
	slot  int
	state timeout.State
	at    int64
}

func (s *session) heads(t topic, asked []int) ([]head, error) {
	list, err := jsonArray(sqlkit.Slots(asked, t.slots))
	if err != nil {
		return nil, err
	}
	var heads []head
	return heads, s.each(selectHeads, []any{t.id, list}, func(scan func(...any) error) (bool, error) {
		var slot int
		var running, pending sql.NullInt64
		if err := scan(&slot, &running, &pending); err != nil {
			return false, err
		}
		if running.Valid {
			heads = append(heads, head{slot, timeout.Running, running.Int64})
		}
		if pending.Valid {
			heads = append(heads, head{slot, timeout.Pending, pending.Int64})
		}
		return true, nil
	})
}

// next returns the time of the first head.
func next(heads []head) time.Time {
	first := int64(math.MaxInt64)
	for _, h := range heads {
		first = min(first, h.at)
	}
	if len(heads) == 0 {
		return time.Time{}
	}
	return sqlkit.Time(first)
}

// look reports whether there is something to write, and otherwise fills in the batch.
func (s *session) look(ask timeout.Ask, batch *timeout.Batch) (due bool, err error) {
	t, err := s.topic(ask.Topic)
	if err != nil {
		return false, err
	}
	now := clock()
	batch.Now = sqlkit.Time(now)
	if ask.Max > 0 {
		stale, fenced, err := s.readFence(t, ask, now)
		if err != nil || stale || fenced {
			return true, err
		}
	}
	if t.paused {
		return false, nil
	}
	heads, err := s.heads(t, ask.Slots)
	if err != nil {
		return false, err
	}
	batch.Next = next(heads)
	return ask.Max > 0 && len(heads) > 0 && !batch.Next.After(batch.Now), nil
}

// lease leases what is due, and reports whether there is room, and more that is due.
func (s *session) lease(t topic, ask timeout.Ask, before int, batch *timeout.Batch) (more bool, err error) {
	now := clock()
	batch.Now = sqlkit.Time(now)
	if t.paused {
		return false, nil
	}
	heads, err := s.heads(t, ask.Slots)
	if err != nil {
		return false, err
	}
	room := min(ask.Max-before, sqlkit.Batch)
	if room > 0 {
		picked, err := s.pick(t, heads, now, room)
		if err != nil {
			return false, err
		}
		if err := s.takeAll(t, ask, picked, now, batch); err != nil {
			return false, err
		}
		if heads, err = s.heads(t, ask.Slots); err != nil {
			return false, err
		}
	}
	batch.Next = next(heads)
	got := len(batch.Leased)
	return got > 0 && before+got < ask.Max && !batch.Next.After(batch.Now), nil
}

const selectPick = `SELECT at, id FROM {tasks} WHERE topic = ?1 AND state = ?2 AND slot = ?3 AND at <= ?4 ORDER BY at LIMIT ?5`

// pick returns what is due, at most room, and the earliest of it where no slot has much more
// than its share.
func (s *session) pick(t topic, heads []head, now int64, room int) ([]sqlkit.Entry, error) {
	heads = slices.DeleteFunc(slices.Clone(heads), func(h head) bool { return h.at > now })
	share := sqlkit.Share(room, len(heads))
	var picked []sqlkit.Entry
	for _, h := range heads {
		err := s.each(selectPick, []any{t.id, h.state, h.slot, now, share}, func(scan func(...any) error) (bool, error) {
			entry := sqlkit.Entry{State: h.state}
			err := scan(&entry.At, &entry.ID)
			picked = append(picked, entry)
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(picked, sqlkit.Entry.Compare)
	return picked[:min(len(picked), room)], nil
}

// takeAll leases tasks, or ends those that have no attempt left.
func (s *session) takeAll(t topic, ask timeout.Ask, picked []sqlkit.Entry, now int64, batch *timeout.Batch) error {
	ids := make([]string, len(picked))
	for i, entry := range picked {
		ids[i] = entry.ID
	}
	var leases, deaths []string
	var late []timeout.Task
	size := 0
	err := s.tasks(t.id, ids, func(task timeout.Task) bool {
		again := task.State == timeout.Running
		if again {
			late = append(late, task)
		}
		if again && task.Attempts >= t.attempts {
			deaths = append(deaths, task.ID)
			batch.Died = append(batch.Died, timeout.Key{Topic: ask.Topic, ID: task.ID})
			return true
		}
		if size += len(task.Payload); size > sqlkit.PageBytes && len(leases) > 0 {
			if again {
				late = late[:len(late)-1]
			}
			return false // the rest comes with the next call
		}
		leases = append(leases, task.ID)
		batch.Leased = append(batch.Leased, timeout.Leased{Task: task, Again: again})
		return true
	})
	if err != nil {
		return err
	}
	if err := s.logLate(t, late, now); err != nil {
		return err
	}
	if err := s.leaseAll(t, ask, leases, now, batch.Leased); err != nil {
		return err
	}
	return s.killAll(t, deaths, now)
}

// leaseMany compares the topic with something that depends on what is asked for: otherwise
// SQLite goes through all tasks of the topic, and looks for each in the list.
const leaseMany = `UPDATE {tasks} AS t SET state = 2, at = ?3, lease = ?4 + asked.key, attempts = attempts + 1, span = ?5, node = ?6
	FROM json_each(?2) AS asked WHERE t.topic = ?1 + 0 * asked.key AND t.id = asked.value`

func (s *session) leaseAll(t topic, ask timeout.Ask, ids []string, now int64, leased []timeout.Leased) error {
	if len(ids) == 0 {
		return nil
	}
	number, err := s.numbers(len(ids))
	if err != nil {
		return err
	}
	list, err := jsonArray(ids)
	if err != nil {
		return err
	}
	span := timeout.CeilMillis(ask.Lease)
	node := sqlkit.Clip(ask.Node, timeout.MaxID)
	if _, err := s.exec(leaseMany, t.id, list, now+span, number+1, span, node); err != nil {
		return err
	}
	for i := range leased {
		l := &leased[i]
		l.Topic, l.State, l.Node = ask.Topic, timeout.Running, node
		l.Attempts++
		l.Until = sqlkit.Time(now + span)
		l.Token = timeout.Token{Key: l.Key(), Lease: number + 1 + int64(i)}
	}
	return nil
}

func (s *session) killAll(t topic, ids []string, now int64) error {
	if len(ids) == 0 {
		return nil
	}
	list, err := jsonArray(ids)
	if err != nil {
		return err
	}
	_, err = s.exec(`UPDATE {tasks} SET state = 4, at = ?3, lease = 0, span = 0, error = ?4
		WHERE topic = ?1 AND id IN (SELECT value FROM json_each(?2))`, t.id, list, now, sqlkit.LeaseEnded)
	return err
}

// Extend is timeout.Engine's.
func (e *Engine) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	held := make([]bool, len(tokens))
	span := timeout.CeilMillis(lease)
	for start := 0; start < len(tokens); start += sqlkit.Batch {
		err := e.write(ctx, func(s *session) error {
			until := clock() + span
			for i := start; i < min(start+sqlkit.Batch, len(tokens)); i++ {
				changed, err := s.exec(`UPDATE {tasks} SET at = ?4, span = ?5
					WHERE topic = (SELECT id FROM {topics} WHERE name = ?1) AND id = ?2 AND lease = ?3 AND state = 2`,
					tokens[i].Topic, tokens[i].ID, tokens[i].Lease, until, span)
				if err != nil {
					return err
				}
				held[i] = changed == 1
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return held, nil
}
