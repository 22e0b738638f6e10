package debughttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// answerShed sheds as many connections as the body says, and answers when they have gone. It ends early with the request: the
// rest stays.
func (h *Handler) answerShed(w http.ResponseWriter, r *http.Request) {
	form := reader{values: url.Values{"shed": r.PostForm["shed"], "per_second": r.PostForm["per_second"], "order": r.PostForm["order"]}}
	s := keepalive.Shed{Count: int(form.number("shed", 0, math.MaxInt)), PerSecond: int(form.number("per_second", 0, 1e9))}
	s.Random = form.oneOf("order", []string{"oldest", "random"}) == "random"
	switch {
	case form.err != nil:
	case s.Count == 0:
		form.wrong("shed", "must be a number from 1")
	case s.PerSecond == 0:
		form.wrong("per_second", "must be there, too: or all clients would come back at once")
	}
	if form.err != nil {
		http.Error(w, form.err.Error(), http.StatusBadRequest)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // it takes as long as it does
	n, err := h.keeper.Shed(r.Context(), s)
	if err != nil {
		code := http.StatusServiceUnavailable
		if errors.Is(err, keepalive.ReasonDrain) {
			code = http.StatusConflict
		}
		http.Error(w, fmt.Sprintf("%v: %d were told to leave", err, n), code)
		return
	}
	body, _ := json.Marshal(struct {
		Shed int `json:"shed"`
	}{n})
	answer(w, r, "application/json", body)
}
