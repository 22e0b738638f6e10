package sqlite

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Claim implements engine.Primary. Of each 512 tasks it claims at most 4 MiB of payloads, or a
// single larger task.
func (e *Engine) Claim(ctx context.Context, topic, node string, wanted []engine.Wanted, lease time.Duration) ([]engine.Claimed, error) {
	claimed, err := inChunks(ctx, e, e.write, "claiming tasks", wanted, func(ctx context.Context, s *session, wanted []engine.Wanted) ([]engine.Claimed, error) {
		t, err := existing(ctx, s, topic)
		if err != nil {
			return nil, err
		}
		l := leasing{t: t, node: node, at: now()}
		l.until = l.at + engine.CeilMillis(lease)
		return l.claim(ctx, s, wanted)
	})
	if err == nil || len(claimed) == 0 {
		return claimed, err
	}
	for _, w := range wanted[len(claimed):] { // keep the leases; the caller can claim the rest again
		claimed = append(claimed, engine.Claimed{At: w.At})
	}
	return claimed, nil
}

// claim leases the wanted tasks that are due. For the others it tells when they are.
func (l *leasing) claim(ctx context.Context, s *session, wanted []engine.Wanted) ([]engine.Claimed, error) {
	ids := make([]string, len(wanted))
	for i, w := range wanted {
		ids[i] = w.ID
	}
	found, err := collect(ctx, s, "SELECT "+dueColumns+" FROM hw_tasks WHERE topic = ? AND id IN (SELECT value FROM json_each(?)) AND state IN (1, 2)", []any{l.t.no, array(ids)}, scanDue)
	if err != nil {
		return nil, err
	}
	there := make(map[string]*due, len(found))
	for _, d := range found {
		if d.state == engine.Pending {
			d.at = max(d.at, d.due)
		}
		there[d.id] = d
	}
	claimed := make([]engine.Claimed, len(wanted))
	var all []*due
	var indices []int
	bytes := 0
	for i, w := range wanted {
		d := there[w.ID]
		switch {
		case d == nil || d.version != w.Version:
		case d.at > l.at || l.t.Paused || len(all) > 0 && bytes+d.size > maxBytes: // large ones are for the next claim
			claimed[i].At = time.UnixMilli(d.at)
		default:
			bytes += d.size
			d.at = l.until // for the same id again
			all, indices = append(all, d), append(indices, i)
		}
	}
	err = l.take(ctx, s, all)
	for n, d := range all {
		if claimed[indices[n]].Died = d.died; !d.died {
			claimed[indices[n]] = engine.Claimed{OK: true, Leased: d.leased}
		}
	}
	return claimed, err
}
