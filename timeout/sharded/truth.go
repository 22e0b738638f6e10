package sharded

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// truth is what the engine has besides where all shards are a timeout.Truth.
type truth struct{ e *core }

// position is how far a shard has been read: from the cursor From, up to the task ID of the time
// At, where that is not its end.
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
		return nil, fmt.Errorf("%w: cursor %.100q, must be the Next of a page", timeout.ErrArgument, text)
	}
	return all, nil
}

// upcoming is a page of a shard, of which some is left.
type upcoming struct {
	timeout.UpcomingPage
	asked bool
	err   error
}

// Upcoming is timeout.Truth's: pages of the shards that answer, merged by time.
func (t truth) Upcoming(ctx context.Context, topic string, slots []int, until time.Time, text string, limit int) (page timeout.UpcomingPage, err error) {
	e := t.e
	if err := e.enter(ctx); err != nil {
		return page, err
	}
	at, err := parsePositions(text, len(e.shards))
	if err != nil {
		return page, err
	}
	if limit < 1 {
		return page, fmt.Errorf("%w: limit %d of a page, must be positive", timeout.ErrArgument, limit)
	}
	if topic == Reserved {
		return page, noTopic(topic)
	}
	read, err := e.readUpcoming(ctx, topic, slots, until, at, max(1, limit/len(e.shards)))
	if err != nil {
		return page, err
	}
	merge(&page, read, at, limit)
	return page, nil
}

// readUpcoming reads a page of each shard that is not at its end.
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
		u.err = e.call(ctx, s, func(ctx context.Context, engine timeout.Engine) (err error) {
			u.UpcomingPage, err = engine.(timeout.Truth).Upcoming(ctx, topic, slots, until, at[s.place].From, limit)
			if errors.Is(err, timeout.ErrNotFound) && s.place > 0 && e.heal(ctx, engine, topic) {
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
		case errors.Is(u.err, timeout.ErrArgument):
			return nil, u.err
		case u.asked:
			errs = append(errs, u.err)
			answered = answered || u.err == nil
		}
	}
	if !answered {
		return nil, allBut(errs, timeout.ErrNotFound)
	}
	return read, nil
}

// skip takes away what pages before had. Where the last task of them is not there any more, what
// is of the same time comes again, which does no harm.
func (u *upcoming) skip(to position) {
	if to.ID == "" {
		return
	}
	is := func(w timeout.Wanted) bool { return w.ID == to.ID && w.At.UnixMilli() == to.At }
	if i := slices.IndexFunc(u.Wanted, is); i >= 0 {
		u.Wanted = u.Wanted[i+1:]
		return
	}
	u.Wanted = slices.DeleteFunc(u.Wanted, func(w timeout.Wanted) bool { return w.At.UnixMilli() < to.At })
}

// merge fills a page with the earliest tasks: those before which nothing can come that was not
// read. It moves the positions there.
func merge(page *timeout.UpcomingPage, read []upcoming, at []position, limit int) {
	for len(page.Wanted) < limit {
		first := -1
		for place := range read {
			u := &read[place]
			if !u.asked || u.err != nil {
				continue
			}
			if len(u.Wanted) == 0 && u.Next != "" {
				first = -1 // there is more of it, which can be earlier
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
		page.Next = base64.RawURLEncoding.EncodeToString(raw)
	}
}

// Claim is timeout.Truth's. What is in a shard that does not answer can be wanted again in a
// second.
func (t truth) Claim(ctx context.Context, topic, node string, wanted []timeout.Wanted, lease time.Duration) ([]timeout.Claimed, error) {
	if err := t.e.enter(ctx); err != nil {
		return nil, err
	}
	if topic == Reserved {
		return nil, noTopic(topic)
	}
	key := func(w timeout.Wanted) timeout.Key { return timeout.Key{Topic: topic, ID: w.ID} }
	claimed, failed := scatter(ctx, t.e, wanted, key, nil, func(engine timeout.Engine, ctx context.Context, some []timeout.Wanted) ([]timeout.Claimed, error) {
		return engine.(timeout.Truth).Claim(ctx, topic, node, some, lease)
	})
	if err := allFailed(failed); err != nil {
		return nil, err
	}
	later := time.Now().Add(lookAgain)
	for i, err := range failed {
		if err != nil {
			claimed[i] = timeout.Claimed{At: maxTime(wanted[i].At, later)}
		}
	}
	return claimed, nil
}

func maxTime(a, b time.Time) time.Time {
	if cmp.Compare(a.UnixMilli(), b.UnixMilli()) < 0 {
		return b
	}
	return a
}
