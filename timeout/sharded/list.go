package sharded

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// List implements engine.Engine. It merges the lists of all shards, and all must answer.
func (e *core) List(ctx context.Context, query engine.Query) (page engine.Page, err error) {
	next, err := e.parseCursor(query.Cursor)
	if err != nil || query.Topic == engine.Reserved {
		return page, err
	}
	query.Limit = cmp.Or(query.Limit, 100)
	limits := make([]int, len(next))
	for index, cursor := range next {
		if cursor != nil {
			limits[index] = query.Limit
		}
	}
	parts, err := e.listParts(ctx, query, next, limits)
	if err != nil {
		return page, err
	}

	// A cursor stands behind a whole page. So a shard with only some of its tasks on the common page is
	// asked once more, for these.
	taken := firstOf(parts, query.Limit)
	again := make([]int, len(next))
	for index, n := range taken {
		if n > 0 && n < len(parts[index].Tasks) {
			again[index] = n
		}
	}
	fewer, err := e.listParts(ctx, query, next, again)
	if err != nil {
		return page, err
	}
	for index, n := range taken {
		part := parts[index]
		if again[index] > 0 {
			part = fewer[index]
		}
		if limits[index] == 0 || n == 0 && len(part.Tasks) > 0 {
			continue // its cursor stays
		}
		page.Tasks = append(page.Tasks, part.Tasks...)
		next[index] = nil
		if part.Next != "" {
			next[index] = &part.Next
		}
	}
	slices.SortStableFunc(page.Tasks, byTime)
	page.Next = next.String()
	return page, nil
}

func byTime(a, b engine.Task) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID)) }

// listParts asks shards for pages after their cursors, and none with a limit of zero.
func (e *core) listParts(ctx context.Context, query engine.Query, from cursors, limits []int) ([]engine.Page, error) {
	parts := make([]engine.Page, len(e.shards))
	errs := e.together(func(index int) bool { return limits[index] > 0 }, func(s *shard) error {
		query := query
		query.Limit, query.Cursor = limits[s.index], *from[s.index]
		return e.callLong(ctx, s, func(ctx context.Context, eng engine.Engine) (err error) {
			parts[s.index], err = eng.List(ctx, query)
			return err
		})
	})
	return parts, errors.Join(errs...)
}

// firstOf returns how many tasks of each part are among the first ones of all, on a page of a limit.
func firstOf(parts []engine.Page, limit int) (taken []int) {
	taken = make([]int, len(parts))
	for bytes := 0; limit > 0; limit-- {
		first := -1
		for index, part := range parts {
			switch n := taken[index]; {
			case n < len(part.Tasks):
				if first < 0 || byTime(part.Tasks[n], parts[first].Tasks[taken[first]]) < 0 {
					first = index
				}
			case part.Next != "":
				return taken // what follows in this shard is not known
			}
		}
		if first < 0 {
			return taken
		}
		bytes += len(parts[first].Tasks[taken[first]].Payload)
		if bytes > engine.MaxPageBytes && slices.Max(taken) > 0 {
			return taken
		}
		taken[first]++
	}
	return taken
}

// cursors are the positions in the lists of the shards, by their index. Nil is behind the last task.
type cursors []*string

// String is empty if all lists have ended.
func (c cursors) String() string {
	if !slices.ContainsFunc(c, func(cursor *string) bool { return cursor != nil }) {
		return ""
	}
	text, _ := json.Marshal(c) // strings can always be written
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseCursor reads the text of cursors. An empty one is the beginning.
func (e *core) parseCursor(text string) (c cursors, err error) {
	if text == "" {
		c = make(cursors, len(e.shards))
		for index := range c {
			c[index] = new(string)
		}
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || len(c) != len(e.shards) || c.String() != text {
		return nil, fmt.Errorf("%w: cursor %.100q, must be the Next of a page", engine.ErrArgument, text)
	}
	return c, nil
}
