package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Claim implements engine.Primary. Of each 512 tasks it claims at most 4 MiB of payloads, or a
// single larger task.
func (e *Engine) Claim(ctx context.Context, topic, node string, wanted []engine.Wanted, lease time.Duration) ([]engine.Claimed, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.use.RUnlock()
	claimed := make([]engine.Claimed, 0, len(wanted))
	for part := range slices.Chunk(wanted, chunk) {
		var some []engine.Claimed
		err := e.write(ctx, func(s session) (err error) {
			some, err = claim(context.Background(), s, topic, node, part, engine.CeilMillis(lease))
			return err
		})
		if err != nil && len(claimed) == 0 {
			return nil, e.wrap("claiming tasks", err)
		}
		if err != nil { // keep the leases; the caller can claim the rest again
			for _, w := range wanted[len(claimed):] {
				claimed = append(claimed, engine.Claimed{At: w.At})
			}
			break
		}
		claimed = append(claimed, some...)
	}
	return claimed, nil
}

// claimable is a wanted task.
type claimable struct {
	outlived
	state engine.State
	i     int // place in wanted, or -1
}

func claim(ctx context.Context, s session, name, node string, wanted []engine.Wanted, lease int64) ([]engine.Claimed, error) {
	t, err := existing(ctx, s, name)
	if err != nil {
		return nil, err
	}
	claimed := make([]engine.Claimed, len(wanted))
	l := leasing{t: t, node: node, at: now()}
	l.until = l.at + lease
	due, err := l.claimables(ctx, s, wanted, claimed)
	if err != nil || len(due) == 0 {
		return claimed, err
	}
	if l.number, err = numbers(ctx, s, 1); err != nil {
		return nil, err
	}
	var waiting []int64
	var over []outlived
	places := make(map[string]int, len(due))
	for _, c := range due {
		places[c.id] = c.i
		if c.state == engine.Running {
			over = append(over, c.outlived)
		} else {
			waiting = append(waiting, c.seq)
		}
	}
	again, err := l.judge(ctx, s, over)
	if err != nil {
		return nil, err
	}
	for _, id := range l.died {
		claimed[places[id]].Died = true
	}
	const bySeq = "seq IN (SELECT value FROM json_each(?))"
	first, err := l.take(ctx, s, waiting, false, bySeq, array(waiting))
	if err != nil {
		return nil, err
	}
	second, err := l.take(ctx, s, again, true, bySeq, array(again))
	for _, leased := range append(first, second...) {
		claimed[places[leased.ID]] = engine.Claimed{OK: true, Leased: leased}
	}
	return claimed, err
}

// claimables returns the wanted tasks that are due. For the others it writes their times into
// claimed.
func (l *leasing) claimables(ctx context.Context, s session, wanted []engine.Wanted, claimed []engine.Claimed) ([]*claimable, error) {
	ids := make([]string, len(wanted))
	for i, w := range wanted {
		ids[i] = w.ID
	}
	there := make(map[string]*claimable, len(wanted))
	err := each(ctx, s, "SELECT seq, CASE state WHEN 1 THEN max(at, due) ELSE at END, id, version, attempts, node, state, coalesce(length(payload), 0) FROM hw_tasks WHERE topic = ? AND id IN (SELECT value FROM json_each(?)) AND state IN (1, 2)",
		[]any{l.t.no, array(ids)}, func(rows *sql.Rows) error {
			c := &claimable{i: -1}
			err := rows.Scan(&c.seq, &c.at, &c.id, &c.version, &c.attempts, &c.node, &c.state, &c.size)
			there[c.id] = c
			return err
		})
	var due []*claimable
	bytes := 0
	for i, w := range wanted {
		c := there[w.ID]
		switch {
		case c == nil || c.version != w.Version:
		case c.i >= 0: // the same id again
			claimed[i].At = time.UnixMilli(l.until)
		case c.at > l.at || l.t.Paused:
			claimed[i].At = time.UnixMilli(c.at)
		case len(due) > 0 && bytes+c.size > maxBytes: // for the next claim
			claimed[i].At = time.UnixMilli(c.at)
		default:
			c.i = i
			bytes += c.size
			due = append(due, c)
		}
	}
	return due, err
}
