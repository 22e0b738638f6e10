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
	there, err := find(ctx, s, l.t.no, ids)
	if err != nil {
		return nil, err
	}
	claimed := make([]engine.Claimed, len(wanted))
	var due []*found
	index := make(map[string]int)
	bytes := 0
	for i, w := range wanted {
		f := there[w.ID]
		if f == nil || f.version != w.Version || f.state != engine.Pending && f.state != engine.Running {
			continue
		}
		at := f.at
		if f.state == engine.Pending {
			at = max(f.at, f.due)
		}
		if at > l.at || l.t.Paused || len(due) > 0 && bytes+f.size > maxBytes { // large ones are for the next claim
			claimed[i].At = time.UnixMilli(at)
			continue
		}
		bytes += f.size
		f.at = l.until // for the same id again
		due, index[w.ID] = append(due, f), i
	}
	leased, err := l.take(ctx, s, due)
	for _, one := range leased {
		claimed[index[one.ID]] = engine.Claimed{OK: true, Leased: one}
	}
	return claimed, err
}
