package api

import (
	"context"
	"net/http"
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

// dropDead removes what is dead. The contract has no removal that looks at the state, so a
// task that is set anew between the look and the removal is removed with the others.
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
