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

func problem(status int, format string, args ...any) wire.Problem {
	return wire.Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// partly is an error after a part of a request was done.
type partly struct {
	done string
	error
}

func (e partly) Error() string { return e.done + ": " + e.error.Error() }
func (e partly) Unwrap() error { return e.error }

// problemOf returns a client's view of an error. An unknown error is the engine's: its text is for the log, since it
// can have the address of a server, and the names of a database and a user.
func problemOf(err error) wire.Problem {
	if told, ok := errors.AsType[wire.Problem](err); ok {
		return told
	}
	if after, ok := errors.AsType[partly](err); ok {
		told := problemOf(after.error)
		told.Detail = after.done + ": " + told.Detail
		return told
	}
	for _, known := range wire.Statuses {
		if errors.Is(err, known.Err) {
			return problem(known.Status, "%s", spell(err.Error()))
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return problem(http.StatusGatewayTimeout, "the engine has not answered in time: the request may have had its effect, and can be repeated")
	}
	return problem(http.StatusBadGateway, "the engine has failed: the request may have had its effect, and can be repeated. This server's log has the reason")
}

// isFailure reports whether an error is the server's or its engine's, and not the client's.
func isFailure(p wire.Problem) bool { return p.Status >= http.StatusInternalServerError }

// complain logs why a request failed, or some of its tasks.
func (h *Handler) complain(r *http.Request, status int, err error) {
	h.cfg.Logger.Warn("api: request failed", "method", r.Method, "path", r.URL.Path, "status", status, "err", err)
}

// refuse answers with an error.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if isFailure(p) {
		h.complain(r, p.Status, err)
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
