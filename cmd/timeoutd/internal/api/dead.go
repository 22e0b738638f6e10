package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// deadBudget is how long one request goes on with dead tasks. After it the answer has More
// set.
const deadBudget = 5 * time.Second

// Cleared is how many dead tasks were replayed or dropped. With More there are others: the
// same request goes on with them.
type Cleared struct {
	Changed int64 `json:"changed"`
	More    bool  `json:"more"`
}

func (h *Handler) replayDead(w http.ResponseWriter, r *http.Request) error {
	return h.clearDead(w, r, replayable, func(ctx context.Context, tasks []timeout.Task) ([]timeout.Answer, error) {
		keys := make([]timeout.Key, len(tasks))
		for i, task := range tasks {
			keys[i] = task.Key()
		}
		return h.centre.Replay(ctx, keys)
	})
}

// dropTasks removes the given tasks if they are dead, and of the given version, if any.
func (h *Handler) dropTasks(w http.ResponseWriter, r *http.Request) error {
	removals, err := h.removals(w, r)
	if err != nil {
		return err
	}
	for i := range removals {
		if state := removals[i].State; state != timeout.None && state != timeout.Dead {
			return fmt.Errorf("keys[%d]: %w: state %v of what is dropped, must be dead, or not there", i, timeout.ErrArgument, state)
		}
		removals[i].State = timeout.Dead
	}
	found, err := h.centre.RemoveAll(r.Context(), removals)
	return tellAll(w, found, err, func(int) effect { return removable })
}

// dropDead removes all dead tasks, each in its listed version. So a task set anew meanwhile
// stays.
func (h *Handler) dropDead(w http.ResponseWriter, r *http.Request) error {
	return h.clearDead(w, r, removable, func(ctx context.Context, tasks []timeout.Task) ([]timeout.Answer, error) {
		removals := make([]timeout.Removal, len(tasks))
		for i, task := range tasks {
			removals[i] = timeout.Removal{Key: task.Key(), State: timeout.Dead, Version: task.Version}
		}
		return h.centre.RemoveAll(ctx, removals)
	})
}

// clearing replays or drops tasks that were dead when they were listed.
type clearing func(context.Context, []timeout.Task) ([]timeout.Answer, error)

// clearDead goes on for deadBudget, and for no more tasks than were dead at first: a replayed
// task may be dead again before the last one is replayed.
func (h *Handler) clearDead(w http.ResponseWriter, r *http.Request, has effect, do clearing) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	if _, err := h.centre.Topic(r.Context(), name); err != nil {
		return err
	}
	counts, err := h.centre.Count(r.Context(), name)
	if err != nil {
		return err
	}
	until, cleared, seen := time.Now().Add(deadBudget), Cleared{}, int64(0)
	query := timeout.Query{Topic: name, State: timeout.Dead, Limit: 500}
	for seen < counts.Dead {
		page, err := h.centre.List(r.Context(), query)
		if err != nil {
			return err
		}
		changed, err := clearPage(r.Context(), page.Tasks, has, do)
		if err != nil {
			return err
		}
		cleared.Changed += changed
		seen += int64(len(page.Tasks))
		if query.Cursor = page.Next; query.Cursor == "" {
			break
		}
		if time.Now().After(until) {
			cleared.More = seen < counts.Dead
			break
		}
	}
	h.stats.forget()
	return answer(w, http.StatusOK, cleared)
}

func clearPage(ctx context.Context, tasks []timeout.Task, has effect, do clearing) (changed int64, err error) {
	if len(tasks) == 0 {
		return 0, nil
	}
	answers, err := do(ctx, tasks)
	for _, a := range answers {
		if a.Err == nil && has(a) {
			changed++
		}
	}
	return changed, err
}
