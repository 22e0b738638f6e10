package wire

import (
	"net/http"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Statuses are the HTTP statuses of a center's errors.
var Statuses = []struct {
	Err    error
	Status int
}{
	{engine.ErrArgument, http.StatusBadRequest},
	{engine.ErrForged, http.StatusForbidden},
	{engine.ErrNotFound, http.StatusNotFound},
	{engine.ErrChanged, http.StatusPreconditionFailed}, // before ErrConflict, which it is, too
	{engine.ErrConflict, http.StatusConflict},
	{engine.ErrUnsupported, http.StatusNotImplemented},
	{engine.ErrFull, http.StatusInsufficientStorage},
	{engine.ErrClosed, http.StatusServiceUnavailable},
}

// Problem is an error in the form of RFC 9457.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Error returns the detail.
func (p Problem) Error() string { return p.Detail }
