package api

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// maxCauses is how many causes one answer has.
const maxCauses = 200

func (h *Handler) listCauses(w http.ResponseWriter, r *http.Request, name string) error {
	query := r.URL.Query()
	topic, err := h.centre.Topic(r.Context(), name)
	if err != nil {
		return err
	}
	groups, other := make(map[string]*wire.Cause), int64(0)
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
	causes := make([]wire.Cause, 0, len(groups))
	for _, group := range slices.SortedFunc(maps.Values(groups), func(a, b *wire.Cause) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.ID, b.ID))
	}) {
		causes = append(causes, *group)
	}
	return answer(w, wire.Causes{Causes: causes, Other: other, Next: next}, nil)
}

// count adds a task to its group. It reports false if there are too many groups.
func count(groups map[string]*wire.Cause, task timeout.Task, why cause) bool {
	id := why.id()
	group := groups[id]
	if group == nil {
		if len(groups) == maxCauses {
			return false
		}
		group = &wire.Cause{ID: id, Error: why.error, Target: why.target}
		groups[id] = group
	}
	group.Tasks++
	if group.Newest == nil || task.Until.After(group.Newest.Time) {
		group.Newest, group.Sample = &wire.Instant{Time: task.Until}, wire.Sample{ID: task.ID, Error: task.Error}
	}
	return true
}
