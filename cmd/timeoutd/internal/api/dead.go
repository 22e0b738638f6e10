package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// deadBudget is for how long one request goes on with what is dead: then it says that there
// is more.
const deadBudget = 5 * time.Second

// Cleared is how many tasks that were dead have been replayed or dropped. With More there
// are others: the same request goes on.
type Cleared struct {
	Changed int64 `json:"changed"`
	More    bool  `json:"more"`
}

func (h *Handler) replayDead(w http.ResponseWriter, r *http.Request) error {
	return h.clearDead(w, r, h.centre.Replay)
}

// dropTasks removes those tasks that are dead. Engines have no removal that looks at the
// state, so one that is set anew between the look and the removal is removed all the same.
func (h *Handler) dropTasks(w http.ResponseWriter, r *http.Request) error {
	keys, err := h.keys(w, r)
	if err != nil {
		return err
	}
	found := make([]timeout.Answer, 0, len(keys))
	for chunk := range slices.Chunk(keys, getSize) {
		some, err := h.drop(r.Context(), chunk)
		if err != nil {
			return err
		}
		found = append(found, some...)
	}
	return tellAll(w, found, nil, func(int) effect { return replayable }) // what is dead
}

func (h *Handler) drop(ctx context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	tasks, err := h.centre.GetAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	answers := make([]timeout.Answer, len(keys))
	var dead []timeout.Key
	var places []int
	for i, task := range tasks {
		answers[i] = timeout.Answer{Was: task.State, Version: task.Version, Due: task.Due}
		if task.State == timeout.Dead {
			dead, places = append(dead, keys[i]), append(places, i)
		}
	}
	if len(dead) == 0 {
		return answers, nil
	}
	removed, err := h.centre.RemoveAll(ctx, dead)
	for i, a := range removed {
		answers[places[i]] = a
	}
	return answers, err
}

// dropDead removes all that is dead, as dropTasks does.
func (h *Handler) dropDead(w http.ResponseWriter, r *http.Request) error {
	return h.clearDead(w, r, h.centre.RemoveAll)
}

// clearDead goes on for a while, and not beyond as many as were dead at first: what is
// replayed may be dead again before the last one is.
func (h *Handler) clearDead(w http.ResponseWriter, r *http.Request, do func(context.Context, []timeout.Key) ([]timeout.Answer, error)) error {
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
		changed, err := clearPage(r.Context(), page, do)
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

func clearPage(ctx context.Context, page timeout.Page, do func(context.Context, []timeout.Key) ([]timeout.Answer, error)) (changed int64, err error) {
	if len(page.Tasks) == 0 {
		return 0, nil
	}
	keys := make([]timeout.Key, len(page.Tasks))
	for i, task := range page.Tasks {
		keys[i] = task.Key()
	}
	answers, err := do(ctx, keys)
	for _, a := range answers {
		if a.Err == nil && a.Was == timeout.Dead {
			changed++
		}
	}
	return changed, err
}
