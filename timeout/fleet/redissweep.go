package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/redisrun"
)

// sweep is store's. Every node looks at every slot: what a script does is one step, so it makes no
// difference which one comes first.
func (s *redisStore) sweep(ctx context.Context, limit int, outcomes []told) (swept, error) {
	calls := make([]*redisrun.Call, 0, len(s.slots))
	bySlot := make([][]told, len(s.slots))
	for _, outcome := range outcomes {
		slot := timeout.Slot(outcome.event.id, len(s.slots))
		bySlot[slot] = append(bySlot[slot], outcome)
	}
	var err error
	if limit > 0 {
		err = s.confirm(ctx)
		limit = max(limit/len(s.slots), 1)
	}
	for slot, outcomes := range bySlot {
		for first := true; len(outcomes) > 0 || (first && limit > 0); first = false {
			part := outcomes[:min(len(outcomes), batchSize)]
			outcomes = outcomes[len(part):]
			room := 0
			if len(outcomes) == 0 {
				room = limit
			}
			calls = append(calls, s.sweepCall(slot, room, part))
		}
	}
	err = errors.Join(err, s.redis.Run(ctx, calls))
	result := swept{held: make(map[string]int)}
	for _, c := range calls {
		if c.Err == nil && c.Answer != nil {
			err = errors.Join(err, result.take(c.Answer))
		}
	}
	return result, err
}

func (s *redisStore) sweepCall(slot, room int, outcomes []told) *redisrun.Call {
	longest := max(s.cfg.Lease, s.cfg.Resume, longestRetry, delivery)
	args := make([]any, 0, 7+4*len(outcomes))
	args = append(args, room, millis(s.cfg.Lease), millis(s.cfg.Renew), max(s.cfg.MaxExpire, 0), heldLeast, millis(delivery), millis(longest)+1)
	for _, outcome := range outcomes {
		var after any = ""
		if !outcome.done {
			after = millis(outcome.after)
		}
		args = append(args, outcome.event.id, string(outcome.event.token[:]), outcome.event.attempts, after)
	}
	return &redisrun.Call{Script: s.scripts.sweep, Keys: s.slots[slot], Args: args, Weight: room + len(outcomes)}
}

func (r *swept) take(answer []any) error {
	ids, events := list(at(answer, 4)), list(at(answer, 5))
	if len(answer) < 6 || len(ids) != len(events) {
		return fmt.Errorf("fleet: sweep has answered with %d parts, %d ids and %d ends", len(answer), len(ids), len(events))
	}
	if why := text(answer[2]); why != "" {
		r.held[why]++
		r.due += int(integer(answer[3]))
	}
	for i := range ids {
		e, err := readEvent(text(ids[i]), text(events[i]))
		if err != nil {
			return err
		}
		r.events = append(r.events, e)
	}
	return nil
}

func (s *redisStore) count(ctx context.Context) (sessions, waiting int64, err error) {
	calls := make([]*redisrun.Call, len(s.slots))
	for i, keys := range s.slots {
		calls[i] = &redisrun.Call{Script: s.scripts.count, Keys: keys}
	}
	if err := s.redis.Run(ctx, calls); err != nil {
		return 0, 0, err
	}
	for _, c := range calls {
		sessions += integer(at(c.Answer, 0))
		waiting += integer(at(c.Answer, 1))
	}
	return sessions, waiting, nil
}
