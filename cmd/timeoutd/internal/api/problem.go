package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Problem is an error in the form of RFC 9457.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Error returns the detail.
func (p Problem) Error() string { return p.Detail }

func problem(status int, format string, args ...any) error {
	return Problem{http.StatusText(status), status, fmt.Sprintf(format, args...)}
}

// statuses are the HTTP statuses of a centre's errors.
var statuses = []struct {
	err    error
	status int
}{
	{timeout.ErrArgument, http.StatusBadRequest},
	{timeout.ErrForged, http.StatusForbidden},
	{timeout.ErrNotFound, http.StatusNotFound},
	{timeout.ErrConflict, http.StatusConflict},
	{timeout.ErrUnsupported, http.StatusNotImplemented},
	{timeout.ErrFull, http.StatusInsufficientStorage},
	{timeout.ErrClosed, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, http.StatusGatewayTimeout},
}

// problemOf returns a client's view of an error. An unknown error is the engine's: it can't be
// reached.
func problemOf(err error) Problem {
	var told Problem
	if errors.As(err, &told) {
		return told
	}
	for _, known := range statuses {
		if errors.Is(err, known.err) {
			return Problem{http.StatusText(known.status), known.status, spell(err.Error())}
		}
	}
	return Problem{http.StatusText(http.StatusBadGateway), http.StatusBadGateway, err.Error()}
}

// refuse answers with an error.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError {
		h.cfg.Logger.Warn("api: request failed", "method", r.Method, "path", r.URL.Path, "status", p.Status, "err", p.Detail)
	}
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// answer answers with a value.
func answer(w http.ResponseWriter, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return problem(http.StatusInternalServerError, "the answer can't be written: %v", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
	return nil
}
