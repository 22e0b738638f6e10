package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"
)

const (
	// smallBody is how many bytes a body may have that is read whatever others are.
	smallBody = 4 << 10

	// bodiesAtOnce is how many of the longest bodies may be there at the same time, or as many
	// bytes of others: what is read of one takes up to ten times as much memory.
	bodiesAtOnce = 4

	// bodyPatience is how long a request waits for others to end. It has less than 30 s to be
	// read.
	bodyPatience = 10 * time.Second
)

// readBody reads a body, and has its bytes count among those that are there until the request
// ends.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	size := r.ContentLength
	if size < 0 || size > h.cfg.MaxBody { // it is not said, or too long, which the reader finds
		size = h.cfg.MaxBody
	}
	if err := h.hold(r.Context(), size); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	body.Grow(int(min(size, max(r.ContentLength, 0))) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, h.cfg.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problem(http.StatusRequestEntityTooLarge, "the body has more than %d bytes, must have at most that", tooLarge.Limit)
	case err != nil:
		return nil, problem(http.StatusBadRequest, "the body ended early: %v", err)
	}
	return body.Bytes(), nil
}

// hold waits until there is room for so many bytes, and has them be there until ctx, which is
// that of the request, ends.
func (h *Handler) hold(ctx context.Context, size int64) error {
	if size <= smallBody {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	if err := h.bodies.Acquire(within, size); err != nil {
		return problem(http.StatusServiceUnavailable, "the bodies of other requests have so many bytes that there is no room for %d more, must have at most %d together", size, bodiesAtOnce*h.cfg.MaxBody)
	}
	context.AfterFunc(ctx, func() { h.bodies.Release(size) })
	return nil
}
