package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// maxFeedback is the longest body with the token of a lease, in bytes: anybody may send one.
const maxFeedback = 64 << 10

// leaseScope is the scope needed beside the token of a lease.
func (h *Handler) leaseScope() Scope {
	if h.cfg.SignedFeedback {
		return Open
	}
	return Work
}

// decodeLease reads a body with the token of a lease. Such bodies have room of their own: anybody could
// take all room of the others, by bodies that never end.
func (h *Handler) decodeLease(w http.ResponseWriter, r *http.Request, into any) error {
	return h.decodeIn(h.leases, min(maxFeedback, h.cfg.MaxBody), w, r, into)
}

// leaseToken reads the token of a lease. Without a signature the request needs the right to work on
// the topic.
func (h *Handler) leaseToken(r *http.Request, text string) (timeout.Token, error) {
	token, err := timeout.ParseToken(text)
	if err == nil && !h.cfg.SignedFeedback {
		err = h.access.work(r, token.Topic)
	}
	return token, err
}

func (h *Handler) feedback(w http.ResponseWriter, r *http.Request) error {
	var told wire.Feedback
	if err := h.decodeLease(w, r, &told); err != nil {
		return err
	}
	token, err := h.leaseToken(r, told.Token)
	if err != nil {
		return err
	}
	failure, err := failureOf(told)
	if err != nil {
		return err
	}
	settled, err := h.center.Feedback(r.Context(), token, failure)
	return answer(w, wire.Settled{Settled: settled}, err)
}

// failureOf returns the outcome as a handler would return it. err is about fields in conflict.
func failureOf(f wire.Feedback) (failure, err error) {
	if f.Again != nil || f.Returned {
		if f.Again != nil && f.Returned || f.Error != "" || f.Permanent || f.RetryAfter != nil {
			return nil, fmt.Errorf("%w: again or returned beside another outcome, must be alone", timeout.ErrArgument)
		}
		if f.Returned {
			return timeout.ErrStopping, nil
		}
		again := time.Duration(*f.Again)
		if again < 0 || again > engine.MaxDuration {
			return nil, fmt.Errorf("%w: again %v, must be from 0 to %v", timeout.ErrArgument, again, engine.MaxDuration)
		}
		return timeout.Again(again), nil
	}
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
		if after := time.Duration(*f.RetryAfter); after < 0 || after > engine.MaxDuration {
			return nil, fmt.Errorf("%w: retry_after %v, must not be negative, and be at most %v", timeout.ErrArgument, after, engine.MaxDuration)
		}
		failure = timeout.RetryAfter(failure, time.Duration(*f.RetryAfter))
	}
	return failure, nil
}
