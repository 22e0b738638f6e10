package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// maxShown is how much of a bad value an error shows.
const maxShown = 60

func problem(status int, format string, args ...any) error {
	return wire.Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// problemOf returns a client's view of an error. An unknown error is the engine's: it can't be
// reached.
func problemOf(err error) wire.Problem {
	var told wire.Problem
	if errors.As(err, &told) {
		return told
	}
	for _, known := range wire.Statuses {
		if errors.Is(err, known.Err) {
			return wire.Problem{Title: http.StatusText(known.Status), Status: known.Status, Detail: spell(err.Error())}
		}
	}
	status := http.StatusBadGateway
	if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	return wire.Problem{Title: http.StatusText(status), Status: status, Detail: err.Error()}
}

// refuse answers with an error.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError {
		h.cfg.Logger.Warn("api: request failed", "method", r.Method, "path", r.URL.Path, "status", p.Status, "err", p.Detail)
	}
	answerProblem(w, p)
}

// answerProblem answers with an error, and logs nothing.
func answerProblem(w http.ResponseWriter, p wire.Problem) {
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

// answer answers with a value, unless there is an error.
func answer(w http.ResponseWriter, value any, err error) error {
	if err != nil {
		return err
	}
	return answerAs(w, http.StatusOK, value)
}

func answerAs(w http.ResponseWriter, status int, value any) error {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // it would change payloads, and make them up to six times as long
	if err := e.Encode(value); err != nil {
		return problem(http.StatusInternalServerError, "the answer can't be written: %v", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
	return nil
}
