package api

import (
	"context"
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

// ofLease returns the handler of a route with the token of a lease in its body. Without a signature the request needs the
// right to work on the topic. Such bodies have room of their own: anybody could take all room of the others, by bodies
// that never end.
func ofLease[T any](h *Handler, text func(T) string, serve func(context.Context, timeout.Token, T) (any, error)) serving {
	return func(w http.ResponseWriter, r *http.Request) error {
		var asked T
		if err := h.decodeIn(h.leases, min(maxFeedback, h.cfg.MaxBody), w, r, &asked); err != nil {
			return err
		}
		token, err := timeout.ParseToken(text(asked))
		if err == nil && !h.cfg.SignedFeedback {
			err = h.access.work(r, token.Topic)
		}
		if err != nil {
			return err
		}
		said, err := serve(r.Context(), token, asked)
		return answer(w, said, err)
	}
}

func (h *Handler) extend(ctx context.Context, token timeout.Token, asked wire.Extend) (any, error) {
	left, err := h.center.Extend(ctx, token, time.Duration(asked.Lease))
	return wire.Extended{Held: left > 0, Lease: wire.Duration(left)}, err
}

func (h *Handler) feedback(ctx context.Context, token timeout.Token, told wire.Feedback) (any, error) {
	failure, err := failureOf(told)
	if err != nil {
		return nil, err
	}
	settled, err := h.center.Feedback(ctx, token, failure)
	return wire.Settled{Settled: settled}, err
}

// failureOf returns the outcome as a handler would return it. err is about fields in conflict.
func failureOf(f wire.Feedback) (failure, err error) {
	failed, more := f.Error != "", f.Permanent || f.RetryAfter != nil
	switch {
	case (f.Again != nil || f.Returned) && (f.Again != nil && f.Returned || failed || more):
		return nil, fmt.Errorf("%w: again or returned beside another outcome, must be alone", timeout.ErrArgument)
	case more && !failed:
		return nil, fmt.Errorf("%w: permanent or retry_after without an error, must have one", timeout.ErrArgument)
	case f.Permanent && f.RetryAfter != nil:
		return nil, fmt.Errorf("%w: permanent and retry_after, must be one of them", timeout.ErrArgument)
	case f.Returned:
		return timeout.ErrStopping, nil
	case f.Again != nil:
		return timeout.Again(time.Duration(*f.Again)), checkWait("again", *f.Again)
	case f.Permanent:
		return timeout.Permanent(errors.New(f.Error)), nil
	case f.RetryAfter != nil:
		return timeout.RetryAfter(errors.New(f.Error), time.Duration(*f.RetryAfter)), checkWait("retry_after", *f.RetryAfter)
	case failed:
		return errors.New(f.Error), nil
	}
	return nil, nil
}

func checkWait(name string, wait wire.Duration) error {
	if d := time.Duration(wait); d < 0 || d > engine.MaxDuration {
		return fmt.Errorf("%w: %s %v, must be from 0 to %v", timeout.ErrArgument, name, d, engine.MaxDuration)
	}
	return nil
}
