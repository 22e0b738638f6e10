package timeoutclient

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// Error is an error of the server.
type Error struct {
	// Status is the HTTP status, such as 404.
	Status int

	// Detail is the server's text.
	Detail string

	kind error // one of package engine's, or nil
}

// Error returns the server's text.
func (e *Error) Error() string { return e.Detail }

// Unwrap returns the error of package engine that the server had, or nil.
func (e *Error) Unwrap() error { return e.kind }

func errorOf(method, path string, res *http.Response, body []byte) error {
	var told wire.Problem
	if json.Unmarshal(body, &told) != nil || told.Detail == "" { // another server's
		return &Error{Status: res.StatusCode, Detail: fmt.Sprintf("%s %s: %s: %.200s", method, path, res.Status, body)}
	}
	told.Status = res.StatusCode
	return problem(told)
}

// problem returns the error of a Problem. The status alone does not say which error it was: a path
// that the server does not know is 404, too.
func problem(told wire.Problem) *Error {
	e := &Error{Status: told.Status, Detail: told.Detail}
	for _, known := range wire.Statuses {
		if told.Status == known.Status && strings.Contains(told.Detail, known.Err.Error()) {
			e.kind = known.Err
		}
	}
	return e
}
