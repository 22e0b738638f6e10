package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
)

// sweep looks at every slot, see store. All nodes do so, in any order: each run of the script is one
// step.
func (s *redisStore) sweep(ctx context.Context, limit int, outcomes []told) (swept, error) {
	calls := make([]*redisrun.Call, 0, s.slots())
	takes := make(map[int]*mark)            // by call, for calls with room for ends
	settles := make([][]told, 0, s.slots()) // by call
	bySlot := make([][]told, s.slots())
	for _, outcome := range outcomes {
		slot := slotAmong(outcome.event.id, s.slots())
		bySlot[slot] = append(bySlot[slot], outcome)
	}
	if limit > 0 {
		limit = max(limit/s.slots(), 1)
	}
	for slot, outcomes := range bySlot {
		for first := true; len(outcomes) > 0 || (first && limit >= 0); first = false {
			part := outcomes[:min(len(outcomes), batchSize)]
			outcomes = outcomes[len(part):]
			room := settleOnly
			if len(outcomes) == 0 {
				room = limit
			}
			calls, settles = append(calls, s.sweepCall(slot, room, part)), append(settles, part)
			if room > 0 {
				takes[len(calls)-1] = &s.marks[slot]
			}
		}
	}
	err := s.redis.Run(ctx, calls)
	result := swept{held: make(map[string]int)}
	for i, c := range calls {
		taken := len(result.events)
		if c.Err == nil && c.Answer != nil {
			err = errors.Join(err, result.take(c.Answer))
		} else {
			result.open = append(result.open, settles[i]...)
		}
		switch m := takes[i]; {
		case m == nil:
		case c.Err != nil:
			m.missed()
		case len(result.events) > taken:
			m.took(integer(at(c.Answer, 0)))
		}
	}
	return result, err
}

func (s *redisStore) sweepCall(slot, room int, outcomes []told) *redisrun.Call {
	args := make([]any, 0, 9+4*len(outcomes))
	args = append(args, room, s.rules, max(s.cfg.MaxExpire, 0), heldLeast, millis(delivery), millis(max(longestRetry, delivery))+1,
		millis(max(s.cfg.Lease, s.cfg.Resume))+1, string(s.by[:]), s.marks[slot].say())
	for _, outcome := range outcomes {
		var after any = ""
		if !outcome.done {
			after = millis(outcome.after)
		}
		args = append(args, outcome.event.id, string(outcome.event.token[:]), outcome.event.attempts, after)
	}
	return &redisrun.Call{Script: s.scripts.sweep, Keys: s.scripts.sweep.Keys(s.keys[slot]), Args: args, Weight: max(room, 0) + len(outcomes)}
}

func (r *swept) take(answer []any) error {
	ids, events := list(at(answer, 4)), list(at(answer, 5))
	if len(answer) < 7 || len(ids) != len(events) {
		return fmt.Errorf("fleet: sweep has answered with %d parts, %d ids and %d ends", len(answer), len(ids), len(events))
	}
	if why := text(answer[2]); why != "" {
		r.held[why]++
		r.due += int(integer(answer[3]))
		r.silence = max(r.silence, time.Duration(integer(answer[1]))*time.Millisecond)
	}
	r.more = r.more || integer(answer[6]) != 0
	if beat := time.Duration(integer(at(answer, 7))) * time.Millisecond; beat > 0 {
		r.beat = min(beat, cmp.Or(r.beat, beat))
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

func (s *redisStore) nodes(ctx context.Context) (nodes int, err error) {
	calls, err := s.everywhere(ctx, s.scripts.nodes)
	if err != nil {
		return 0, err
	}
	for _, c := range calls { // one that has just come is in some slots only
		nodes = max(nodes, int(integer(at(c.Answer, 0))))
	}
	return nodes, nil
}

func (s *redisStore) count(ctx context.Context) (sessions, ended int64, err error) {
	calls, err := s.everywhere(ctx, s.scripts.count)
	if err != nil {
		return 0, 0, err
	}
	for _, c := range calls {
		sessions += integer(at(c.Answer, 0))
		ended += integer(at(c.Answer, 1))
	}
	return sessions, ended, nil
}
