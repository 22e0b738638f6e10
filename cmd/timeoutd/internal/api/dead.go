package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// deadBudget is how long one request goes on with dead tasks.
const deadBudget = 5 * time.Second

// drop is the removal of a dead task in the version listed. So a task set anew meanwhile stays.
func drop(task timeout.Task) timeout.Removal {
	return timeout.Removal{Key: task.Key(), State: timeout.Dead, Version: task.Version}
}

// clearDead returns the handler of a verb for the dead tasks of a topic, or only for those of one cause.
func clearDead[T any](h *Handler, verb verb[T], of func(timeout.Task) T) serving {
	return ofTopic(func(w http.ResponseWriter, r *http.Request, name string) error {
		var cleared wire.Cleared
		var err error
		cleared.Next, err = h.eachDead(r, name, func(topic timeout.Topic, tasks []timeout.Task) error {
			if only := r.URL.Query().Get("cause"); only != "" {
				tasks = slices.DeleteFunc(tasks, func(task timeout.Task) bool { return causeOf(task, topic).ID != only })
			}
			if len(tasks) == 0 {
				return nil
			}
			page := wire.Each(tasks, of)
			answers, err := verb.do(r.Context(), page)
			for i, a := range answers {
				switch {
				case a.Err != nil: // there is no answer about some of them
					err = cmp.Or(err, a.Err)
				case verb.has(page[i], a):
					cleared.Changed++
				}
			}
			return err
		})
		cleared.More = cleared.Next != ""
		if err != nil && cleared.Changed > 0 {
			err = partly{fmt.Sprintf("after %d tasks of this request", cleared.Changed), err}
		}
		h.stats.forget()
		return answer(w, cleared, err)
	})
}

// eachDead visits the dead tasks of a topic, a page at a time, for deadBudget, from the cursor of a request on. next is
// the cursor with which another request goes on, or empty. All these requests together visit the tasks that were dead
// at first: a replayed task may be dead again before the last one is replayed.
func (h *Handler) eachDead(r *http.Request, name string, visit func(timeout.Topic, []timeout.Task) error) (next string, err error) {
	ctx, query := r.Context(), timeout.Query{Topic: name, State: timeout.Dead, Limit: 500, OmitPayload: true}
	topic, err := h.center.Topic(ctx, name)
	if err != nil {
		return "", err
	}
	var first time.Time // when the first request began
	if cursor := r.URL.Query().Get("cursor"); cursor == "" {
		first, err = h.center.Now(ctx)
	} else {
		first, query.Cursor, err = parseCursor(cursor)
	}
	if err != nil {
		return "", err
	}
	for until := time.Now().Add(deadBudget); ; {
		page, err := h.center.List(ctx, query)
		if err != nil {
			return "", err
		}
		now, err := h.center.Now(ctx)
		if err != nil {
			return "", err
		}
		// If the clock was set back, some have died later than now. They are of before.
		again := func(task timeout.Task) bool { return task.Until.After(first) && !task.Until.After(now) }
		if err := visit(topic, slices.DeleteFunc(page.Tasks, again)); err != nil {
			return "", err
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			return "", nil
		}
		if time.Now().After(until) {
			return strconv.FormatInt(first.UnixMilli(), 10) + "." + query.Cursor, nil
		}
	}
}

// parseCursor reads a cursor of eachDead: when the first request began, in ms, and a list's cursor.
func parseCursor(text string) (first time.Time, cursor string, err error) {
	number, cursor, found := strings.Cut(text, ".")
	millis, err := strconv.ParseInt(number, 10, 64)
	if !found || err != nil || millis < 0 {
		return first, "", fmt.Errorf("%w: cursor %.*q, must be the next of an answer", timeout.ErrArgument, maxShown, text)
	}
	return time.UnixMilli(millis), cursor, nil
}
