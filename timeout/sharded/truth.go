package sharded

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// truth implements engine.Truth if all shards do.
type truth struct{ e *core }

// position is the progress of reading a shard: from the cursor From, up to the task ID of the time
// At in milliseconds, or End.
type position struct {
	From string `json:"f,omitempty"`
	At   int64  `json:"a,omitempty"`
	ID   string `json:"i,omitempty"`
	End  bool   `json:"e,omitempty"`
}

func parsePositions(text string, shards int) ([]position, error) {
	all := make([]position, shards)
	if text == "" {
		return all, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil || len(all) != shards {
		return nil, fmt.Errorf("%w: cursor %.100q, must be the Next of a page", engine.ErrArgument, text)
	}
	return all, nil
}

// upcoming is the rest of a page of a shard.
type upcoming struct {
	engine.UpcomingPage
	asked bool
	err   error
}

// Upcoming implements engine.Truth: it merges pages of the answering shards by time.
func (t truth) Upcoming(ctx context.Context, topic string, slots []int, until time.Time, text string, limit int) (page engine.UpcomingPage, err error) {
	e := t.e
	if err := e.enter(ctx); err != nil {
		return page, err
	}
	at, err := parsePositions(text, len(e.shards))
	if err != nil {
		return page, err
	}
	if limit < 1 {
		return page, fmt.Errorf("%w: limit %d of a page, must be positive", engine.ErrArgument, limit)
	}
	if topic == engine.Reserved {
		return page, noTopic(topic)
	}
	read, err := e.readUpcoming(ctx, topic, slots, until, at, max(1, limit/len(e.shards)))
	if err != nil {
		return page, err
	}
	merge(&page, read, at, limit)
	return page, nil
}

// readUpcoming reads a page of each shard, except of those at their end.
func (e *core) readUpcoming(ctx context.Context, topic string, slots []int, until time.Time, at []position, limit int) ([]upcoming, error) {
	e.mu.Lock()
	of := e.slots[topic]
	e.mu.Unlock()
	in := places(topic, slots, of, len(e.shards))
	read := make([]upcoming, len(e.shards))
	for place := range read {
		at[place].End = at[place].End || !in[place]
		read[place].asked = !at[place].End
	}
	e.together(func(place int) bool { return read[place].asked }, func(s *shard) error {
		u := &read[s.place]
		u.err = e.call(ctx, s, func(ctx context.Context, eng engine.Engine) (err error) {
			u.UpcomingPage, err = eng.(engine.Truth).Upcoming(ctx, topic, slots, until, at[s.place].From, limit)
			if errors.Is(err, engine.ErrNotFound) && s.place > 0 && e.heal(ctx, s, eng, topic) {
				err = nil
			}
			return err
		})
		u.skip(at[s.place])
		return nil
	})
	var errs []error
	answered := false
	for _, u := range read {
		switch {
		case errors.Is(u.err, engine.ErrArgument):
			return nil, u.err
		case u.asked:
			errs = append(errs, u.err)
			answered = answered || u.err == nil
		}
	}
	if !answered {
		return nil, allBut(errs, engine.ErrNotFound)
	}
	return read, nil
}

// skip removes the tasks of earlier pages. If the last of these tasks is gone, the others come
// again, without harm.
func (u *upcoming) skip(to position) {
	is := func(w engine.Wanted) bool { return w.ID == to.ID && w.At.UnixMilli() == to.At }
	u.Wanted = u.Wanted[slices.IndexFunc(u.Wanted, is)+1:]
}

// merge fills a page with the earliest tasks, as long as no unread task can be earlier. It moves the
// positions accordingly.
func merge(page *engine.UpcomingPage, read []upcoming, at []position, limit int) {
	for len(page.Wanted) < limit {
		first := -1
		for place := range read {
			u := &read[place]
			if !u.asked || u.err != nil {
				continue
			}
			if len(u.Wanted) == 0 && u.Next != "" {
				first = -1 // its next page can have an earlier task
				break
			}
			if len(u.Wanted) > 0 && (first < 0 || u.Wanted[0].At.Before(read[first].Wanted[0].At)) {
				first = place
			}
		}
		if first < 0 {
			break
		}
		u := &read[first]
		next := u.Wanted[0]
		u.Wanted = u.Wanted[1:]
		page.Wanted = append(page.Wanted, next)
		at[first].At, at[first].ID = next.At.UnixMilli(), next.ID
		if len(u.Wanted) == 0 {
			at[first] = position{From: u.Next, End: u.Next == ""}
		}
	}
	end := true
	for place := range read {
		u := &read[place]
		if u.asked && u.err == nil && len(u.Wanted) == 0 {
			at[place] = position{From: u.Next, End: u.Next == ""}
		}
		if u.err != nil {
			at[place].End = true // with the next scan
		}
		end = end && at[place].End
	}
	if !end {
		raw, _ := json.Marshal(at)
		page.Next, page.Until = base64.RawURLEncoding.EncodeToString(raw), unread(read)
	}
}

// unread returns the earliest time of an unread task: none is due before.
func unread(read []upcoming) (first time.Time) {
	note := func(at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	for _, u := range read {
		if !u.asked || u.err != nil {
			continue
		}
		for _, wanted := range u.Wanted {
			note(wanted.At)
		}
		if u.Next != "" {
			note(u.Until)
		}
	}
	return first
}

// claimAgain is the wait for the next claim of a task whose shard did not answer.
const claimAgain = time.Second

// Claim implements engine.Truth. The tasks of a silent shard can be wanted again in a second.
func (t truth) Claim(ctx context.Context, topic, node string, wanted []engine.Wanted, lease time.Duration) ([]engine.Claimed, error) {
	if err := t.e.enter(ctx); err != nil {
		return nil, err
	}
	if topic == engine.Reserved {
		return nil, noTopic(topic)
	}
	key := func(w engine.Wanted) engine.Key { return engine.Key{Topic: topic, ID: w.ID} }
	claimed, failed := scatter(ctx, t.e, wanted, key, nil, func(eng engine.Engine, ctx context.Context, some []engine.Wanted) ([]engine.Claimed, error) {
		return eng.(engine.Truth).Claim(ctx, topic, node, some, lease)
	})
	if err := allFailed(failed); err != nil {
		return nil, err
	}
	later := time.Now().Add(claimAgain)
	for i, err := range failed {
		if err != nil {
			claimed[i] = engine.Claimed{At: slices.MaxFunc([]time.Time{wanted[i].At, later}, time.Time.Compare)}
		}
	}
	return claimed, nil
}
