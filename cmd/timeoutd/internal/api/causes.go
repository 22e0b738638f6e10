package api

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// maxCauses is how many causes one answer has.
const maxCauses = 200

// Causes says why tasks are dead. If there is a Next, it is about the tasks up to there, and the
// same request with that cursor is about others.
type Causes struct {
	Causes []Cause `json:"causes"` // the most tasks first
	Other  int64   `json:"other"`  // tasks of more causes than an answer has
	Next   string  `json:"next,omitempty"`
}

// Cause is a group of dead tasks with the same kind of error at the same target.
type Cause struct {
	ID     string   `json:"cause"`
	Error  string   `json:"error"`            // what the errors have in common
	Target string   `json:"target,omitempty"` // what the targets have in common; empty for a handler
	Tasks  int64    `json:"tasks"`
	Newest *Instant `json:"newest"`
	Sample Sample   `json:"example"`
}

// Sample is the task that has died last.
type Sample struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

func (h *Handler) listCauses(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	topic, err := h.topicOf(r)
	if err != nil {
		return err
	}
	groups, other := make(map[string]*Cause), int64(0)
	next, err := h.eachDead(r.Context(), topic.Name, query.Get("cursor"), func(tasks []timeout.Task) error {
		for _, task := range tasks {
			if !count(groups, task, causeOf(task, topic)) {
				other++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	causes := make([]Cause, 0, len(groups))
	for _, group := range slices.SortedFunc(maps.Values(groups), func(a, b *Cause) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.ID, b.ID))
	}) {
		causes = append(causes, *group)
	}
	return answer(w, http.StatusOK, Causes{causes, other, next})
}

// count adds a task to its group. It reports false if there are too many groups.
func count(groups map[string]*Cause, task timeout.Task, why cause) bool {
	id := why.id()
	group := groups[id]
	if group == nil {
		if len(groups) == maxCauses {
			return false
		}
		group = &Cause{ID: id, Error: why.error, Target: why.target}
		groups[id] = group
	}
	group.Tasks++
	if group.Newest == nil || task.Until.After(group.Newest.Time) {
		group.Newest, group.Sample = &Instant{task.Until}, Sample{task.ID, task.Error}
	}
	return true
}
