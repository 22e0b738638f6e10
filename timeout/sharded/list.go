package sharded

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// List implements engine.Engine. It lists one shard after the other, so the order of Task.Until
// holds within a slot of a shard. All shards must answer.
func (e *core) List(ctx context.Context, query engine.Query) (page engine.Page, err error) {
	if err := e.enter(ctx); err != nil {
		return page, err
	}
	place, inner, err := e.parseCursor(query.Cursor)
	if err != nil || query.Topic == Reserved {
		return page, err
	}
	limit := query.Limit
	if limit == 0 {
		limit = 100
	}
	for bytes := 0; place < len(e.shards); place++ {
		var some engine.Page
		query.Limit, query.Cursor = limit-len(page.Tasks), inner
		err := e.callLong(ctx, e.shards[place], func(ctx context.Context, eng engine.Engine) (err error) {
			some, err = eng.List(ctx, query)
			return err
		})
		if err != nil {
			return engine.Page{}, err
		}
		for _, task := range some.Tasks {
			bytes += len(task.Payload)
		}
		if bytes > engine.MaxPageBytes && len(page.Tasks) > 0 { // the tasks of this shard are for the next page
			page.Next = cursor(place, "")
			return page, nil
		}
		page.Tasks = append(page.Tasks, some.Tasks...)
		inner = ""
		switch {
		case some.Next != "":
			page.Next = cursor(place, some.Next)
			return page, nil
		case place < len(e.shards)-1 && len(page.Tasks) >= limit:
			page.Next = cursor(place+1, "")
			return page, nil
		}
	}
	return page, nil
}

// cursor is the cursor of a shard, with its place.
func cursor(place int, inner string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(place) + "/" + inner))
}

func (e *core) parseCursor(text string) (place int, inner string, err error) {
	if text == "" {
		return 0, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	number, inner, found := strings.Cut(string(raw), "/")
	if err == nil && found {
		place, err = strconv.Atoi(number)
	}
	if err != nil || !found || place < 0 || place >= len(e.shards) || cursor(place, inner) != text {
		return 0, "", fmt.Errorf("%w: cursor %.100q, must be the Next of a page", engine.ErrArgument, text)
	}
	return place, inner, nil
}
