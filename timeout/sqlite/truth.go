package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

const selectUpcoming = `SELECT at, id, version FROM {tasks}
	WHERE topic = ?1 AND state = ?2 AND slot = ?3 AND (at, id) > (?4, ?5) AND at < ?6 ORDER BY at, id LIMIT ?7`

// Upcoming is timeout.Truth's. The pages are in the order of time over all slots.
func (e *Engine) Upcoming(ctx context.Context, topic string, slots []int, until time.Time, cursor string, limit int) (page timeout.UpcomingPage, err error) {
	if limit < 1 {
		return page, fmt.Errorf("%w: limit %d of what is upcoming, must be positive", timeout.ErrArgument, limit)
	}
	after, err := sqlkit.ParseCursor(cursor)
	if err != nil {
		return page, err
	}
	err = e.read(ctx, func(s *session) error {
		t, err := s.topic(topic)
		if err != nil {
			return err
		}
		var parts [][]sqlkit.Entry
		asked := sqlkit.Slots(slots, t.slots)
		share := sqlkit.Share(limit, len(asked))
		for _, slot := range asked {
			for _, state := range []timeout.State{timeout.Running, timeout.Pending} {
				var part []sqlkit.Entry
				args := []any{t.id, state, slot, after.At, after.ID, timeout.Millis(until), share}
				err := s.each(selectUpcoming, args, func(scan func(...any) error) (bool, error) {
					var entry sqlkit.Entry
					err := scan(&entry.At, &entry.ID, &entry.Version)
					part = append(part, entry)
					return true, err
				})
				if err != nil {
					return err
				}
				parts = append(parts, part)
			}
		}
		var entries []sqlkit.Entry
		entries, page.Next = sqlkit.Merge(parts, share, limit)
		page.Wanted = sqlkit.Wanted(entries)
		return nil
	})
	return page, err
}

// Claim is timeout.Truth's.
func (e *Engine) Claim(ctx context.Context, topic, node string, wanted []timeout.Wanted, lease time.Duration) ([]timeout.Claimed, error) {
	claimed := make([]timeout.Claimed, len(wanted))
	key := func(i int) timeout.Key { return timeout.Key{Topic: topic, ID: wanted[i].ID} }
	ask := timeout.Ask{Topic: topic, Node: node, Lease: lease}
	for g, group := range sqlkit.ByTopic(len(wanted), key) {
		err := e.write(ctx, func(s *session) error { return s.claim(ask, group, key, wanted, claimed) })
		if err != nil && g == 0 {
			return nil, err
		}
		if err != nil { // what was leased must not be lost; of the rest nothing is known
			for i := range claimed {
				if !claimed[i].OK && claimed[i].At.IsZero() {
					claimed[i].At = wanted[i].At
				}
			}
			break
		}
	}
	return claimed, nil
}

func (s *session) claim(ask timeout.Ask, group sqlkit.Group, key func(int) timeout.Key, wanted []timeout.Wanted, claimed []timeout.Claimed) error {
	t, err := s.topic(ask.Topic)
	if err != nil {
		return err
	}
	ids, where := group.IDs(key)
	now := clock()
	var due []sqlkit.Entry
	err = s.tasks(t.id, ids, func(task timeout.Task) bool {
		i := where[task.ID]
		if task.Version != wanted[i].Version || task.State != timeout.Pending && task.State != timeout.Running {
			return true
		}
		claimed[i].At = task.Until
		if !t.paused && task.Until.UnixMilli() <= now {
			due = append(due, sqlkit.Entry{ID: task.ID})
		}
		return true
	})
	if err != nil {
		return err
	}
	var batch timeout.Batch
	if err := s.takeAll(t, ask, due, now, &batch); err != nil {
		return err
	}
	for _, leased := range batch.Leased {
		claimed[where[leased.ID]] = timeout.Claimed{OK: true, Leased: leased}
	}
	for _, died := range batch.Died {
		claimed[where[died.ID]] = timeout.Claimed{Died: true}
	}
	return nil
}
