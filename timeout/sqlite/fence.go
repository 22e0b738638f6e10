package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// fenceEvery is the time between two writes of a node's fence, in milliseconds. Fences last that
// much longer. An idle node looks every few seconds, so most looks write nothing.
const fenceEvery = 30_000

var fenceLasts = engine.FenceFor.Milliseconds() + fenceEvery

// fence is this engine's last committed fence for a topic.
type fence struct {
	term  int64
	slots []int
	at    int64 // in milliseconds since the epoch
}

// fenceIsOld reports whether the fence of an ask must be written.
func (e *Engine) fenceIsOld(t *topic, ask engine.Ask, at int64) bool {
	if ask.Term == 0 {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	last, ok := e.fenced[t.no]
	return !ok || last.term != ask.Term || at-last.at >= fenceEvery || at < last.at ||
		(last.slots == nil) != (ask.Slots == nil) || !slices.Equal(last.slots, ask.Slots)
}

// checkFence refuses a node whose view is old, see engine.Ask.
func checkFence(ctx context.Context, s session, t *topic, ask engine.Ask, at int64) error {
	if ask.Term == 0 {
		return nil
	}
	condition, args := "", []any{t.no, ask.Term, at}
	if ask.Slots != nil {
		condition = " AND slot IN (SELECT value FROM json_each(?))"
		args = append(args, array(ask.Slots))
	}
	var slot, term int64
	found, err := one(ctx, s, "SELECT slot, term FROM hw_fences WHERE topic = ? AND term > ? AND until > ?"+condition+" LIMIT 1", args, &slot, &term)
	if err != nil || !found {
		return err
	}
	return fmt.Errorf("%w: slot %d of topic %s was leased from with term %d, after %d", engine.ErrFenced, slot, t.Name, term, ask.Term)
}

// raiseFence writes the term of an ask, unless the last write was a moment ago. After the commit
// the caller passes the fence to keepFence.
func (e *Engine) raiseFence(ctx context.Context, s session, t *topic, ask engine.Ask, at int64) (*fence, error) {
	if !e.fenceIsOld(t, ask, at) {
		return nil, nil
	}
	_, err := s.ExecContext(ctx, `INSERT INTO hw_fences (topic, slot, term, until) SELECT ?, value, ?, ? FROM json_each(?) WHERE true
		ON CONFLICT (topic, slot) DO UPDATE SET term = excluded.term, until = excluded.until`,
		t.no, ask.Term, at+fenceLasts, array(t.Asked(ask.Slots)))
	return &fence{ask.Term, slices.Clone(ask.Slots), at}, err
}

// keepFence remembers a committed fence. topic is the number of the topic.
func (e *Engine) keepFence(topic int64, raised *fence) {
	if raised == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fenced[topic] = *raised
}

// lowerFences shortens fences from before the clock was stepped back: they last as long as a
// fence of now. It asks the clock as late as bringBack does, and for the same reason.
func (e *Engine) lowerFences(ctx context.Context) error {
	var last int64
	_, err := one(ctx, e.reader, "SELECT coalesce(max(until), 0) FROM hw_fences", nil, &last)
	if err != nil || last <= now()+fenceLasts {
		return err
	}
	return e.write(ctx, func(s session) error {
		_, err := s.ExecContext(context.Background(), "UPDATE hw_fences SET until = ?1 WHERE until > ?1", now()+fenceLasts)
		return err
	})
}
