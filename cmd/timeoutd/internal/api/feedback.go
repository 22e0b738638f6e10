package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// maxFeedback is the longest body of a feedback, in bytes: anybody may send one.
const maxFeedback = 64 << 10

func (h *Handler) feedbackScope() Scope {
	if h.cfg.SignedFeedback {
		return Open
	}
	return Write
}

func (h *Handler) feedback(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxFeedback {
		return problem(http.StatusRequestEntityTooLarge, "the body has %d bytes, must have at most %d", r.ContentLength, maxFeedback)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxFeedback)
	var told wire.Feedback
	if err := h.decode(w, r, &told); err != nil {
		return err
	}
	token, err := timeout.ParseToken(told.Token)
	if err != nil {
		return err
	}
	failure, err := failureOf(told)
	if err != nil {
		return err
	}
	settled, err := h.centre.Feedback(r.Context(), token, failure)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wire.Settled{Settled: settled})
}

// failureOf returns the outcome as a handler would return it. err is about fields in conflict.
func failureOf(f wire.Feedback) (failure, err error) {
	if f.Error == "" {
		if f.Permanent || f.RetryAfter != nil {
			return nil, fmt.Errorf("%w: permanent or retry_after without an error, must have one", timeout.ErrArgument)
		}
		return nil, nil
	}
	failure = errors.New(f.Error)
	switch {
	case f.Permanent && f.RetryAfter != nil:
		return nil, fmt.Errorf("%w: permanent and retry_after, must be one of them", timeout.ErrArgument)
	case f.Permanent:
		failure = timeout.Permanent(failure)
	case f.RetryAfter != nil:
		if *f.RetryAfter < 0 {
			return nil, fmt.Errorf("%w: retry_after %v, must not be negative", timeout.ErrArgument, time.Duration(*f.RetryAfter))
		}
		failure = timeout.RetryAfter(failure, time.Duration(*f.RetryAfter))
	}
	return failure, nil
}
