package api

import (
	"net/http"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// maxCauses is how many causes one answer has.
const maxCauses = 200

func (h *Handler) listCauses(w http.ResponseWriter, r *http.Request, name string) error {
	query := r.URL.Query()
	topic, err := h.center.Topic(r.Context(), name)
	if err != nil {
		return err
	}
	groups, other := make(wire.Groups), int64(0)
	next, err := h.eachDead(r.Context(), topic.Name, query.Get("cursor"), func(tasks []timeout.Task) error {
		for _, task := range tasks {
			why := causeOf(task, topic)
			id := why.id()
			if _, known := groups[id]; !known && len(groups) == maxCauses {
				other++
				continue
			}
			groups.Add(wire.Cause{
				ID: id, Error: why.error, Target: why.target, Tasks: 1,
				Newest: wire.Instant{Time: task.Until}, Sample: wire.Sample{ID: task.ID, Error: task.Error},
			})
		}
		return nil
	})
	return answer(w, wire.Causes{Causes: groups.Sorted(), Other: other, Next: next}, err)
}
