package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// smallBody is the longest body, in bytes, to be read without waiting for others.
	smallBody = 4 << 10

	// bodiesAtOnce is how many of the longest bodies may be in memory at the same time, and how many
	// of the longest with the token of a lease. Shorter ones count by their bytes. A decoded body takes
	// up to ten times as much memory.
	bodiesAtOnce = 4

	// bodyPatience is how long a request waits for others to end. It is a part of the 30 s to
	// read the request.
	bodyPatience = 10 * time.Second
)

// readBody reads a body of most bytes at most. Its bytes take room until the request ends. A body of unknown
// length takes room for the longest one until it is read: the request may be a pull, with a long wait to come.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request, room *semaphore.Weighted, most int64) ([]byte, error) {
	size := r.ContentLength
	if size < 0 || size > most { // unknown, or too long: then the reader fails
		size = most
	}
	keep, ok := h.reserve(r.Context(), room, size)
	if !ok {
		return nil, problem(http.StatusServiceUnavailable, "the bodies of other requests have so many bytes that there is no room for %d more, must have at most %d together", size, bodiesAtOnce*most)
	}
	var body bytes.Buffer
	body.Grow(int(min(size, max(r.ContentLength, 0))) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problem(http.StatusRequestEntityTooLarge, "the body has more than %d bytes, must have at most that", tooLarge.Limit)
	case err != nil:
		return nil, problem(http.StatusBadRequest, "the body ended early: %v", err)
	}
	keep(min(size, int64(body.Len())))
	return body.Bytes(), nil
}

// reserve waits until there is room for most bytes, and takes the room until ctx, the request's, is done.
// It reports false if there was no room in time. The function keeps some of the bytes, and gives back the
// others. To hold a part and then wait for the next is no way: requests would wait for each other.
func (h *Handler) reserve(ctx context.Context, room *semaphore.Weighted, most int64) (keep func(size int64), ok bool) {
	if most <= smallBody {
		return func(int64) {}, true
	}
	if !h.wait(ctx, room, most) {
		return nil, false
	}
	return held(ctx, room, most), true
}

// wait takes size bytes of room. It reports false if they were not there in time.
func (h *Handler) wait(ctx context.Context, room *semaphore.Weighted, size int64) bool {
	within, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	return room.Acquire(within, size) == nil
}

// held gives most bytes back when ctx is done. keep gives all but size back at once.
func held(ctx context.Context, room *semaphore.Weighted, most int64) (keep func(size int64)) {
	stop := context.AfterFunc(ctx, func() { room.Release(most) })
	return func(size int64) {
		if stop() {
			context.AfterFunc(ctx, func() { room.Release(size) })
			room.Release(most - size)
		}
	}
}
