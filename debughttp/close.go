package debughttp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	// minToken is the shortest token, in bytes: nobody can try all of so many.
	minToken = 16

	// maxForm is the longest body of a request to close or shed connections, in bytes.
	maxForm = 1024
)

// answerClose closes the connection with the ID in the body, or sheds some. An address would not do: by now it
// may be another connection's.
func (h *Handler) answerClose(w http.ResponseWriter, r *http.Request) {
	var origin http.CrossOriginProtection
	if err := origin.Check(r); err != nil {
		http.Error(w, "debughttp: another site's page has sent this request", http.StatusForbidden)
		return
	}
	if !h.mayClose(r) {
		http.Error(w, "debughttp: to close a connection takes the header Authorization: Bearer TOKEN, with the CloseToken of debughttp.Config", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, fmt.Sprintf("%v: the body must be a form of at most %d bytes, such as id=7: %v", ErrArgument, maxForm, err), http.StatusBadRequest)
		return
	}
	if r.PostForm.Has("shed") {
		h.answerShed(w, r)
		return
	}
	q, err := parseQuery(url.Values{"id": r.PostForm["id"]}, h.cfg.HideAddrs)
	if err == nil && q.id == 0 {
		err = fmt.Errorf("%w: id is missing in the body, which must be a form such as id=7, or shed=100&per_second=10", ErrArgument)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	row, open, err := h.closeOne(r.Context(), &q)
	switch {
	case err != nil:
		w.Header().Set("Retry-After", "2")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case !open:
		http.Error(w, h.gone(q.id), http.StatusNotFound)
	default:
		body, _ := json.Marshal(row)
		answer(w, r, "application/json", body)
	}
}

// mayClose reports whether a request has the token. It takes as long for any wrong one.
func (h *Handler) mayClose(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	has, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(h.cfg.CloseToken))
	return subtle.ConstantTimeCompare(has[:], want[:]) == 1 && ok
}

// closeOne closes a connection. open is false if there is none, or no longer.
func (h *Handler) closeOne(ctx context.Context, q *query) (row Connection, open bool, err error) {
	err = h.looks.do(ctx, func() {
		h.eachOpen(ctx, q, func(e *entry) bool {
			if row, open = h.openRow(e, time.Now()); open {
				open = e.guard.Close(keepalive.ReasonLocal)
			}
			return false
		})
	})
	row.State, row.Reason, row.Left = "leaving", keepalive.ReasonLocal.String(), new(float64)
	return row, open, err
}

// gone says what is known of a connection that is not open.
func (h *Handler) gone(id uint64) string {
	text := fmt.Sprintf("debughttp: connection %d is not open", id)
	h.eachEnded(&query{id: id}, func(e *entry) {
		text += fmt.Sprintf(": it ended at %s, reason %s", e.end.At.UTC().Format(time.RFC3339), e.end.Reason.String())
	})
	return text
}
