package timeoutclient

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// Pull asks for due tasks of a topic with engine.Topic.Pull.
type Pull struct {
	Topic string

	// Max is the greatest number of tasks, up to 100. Zero means 1. Payloads beyond 4 MiB wait
	// for another call.
	Max int

	// Lease is how long the tasks belong to the caller, unless it calls Extend: at least 100ms, and
	// at most the topic's Timeout. Zero means the topic's Lease.
	Lease time.Duration

	// Wait is how long the server waits for a first due task, at most MaxWait. Zero means not at
	// all.
	Wait time.Duration
}

// MaxWait is the greatest Pull.Wait.
const MaxWait = 20 * time.Second

// Leased is a task that belongs to the caller for a while.
type Leased struct {
	engine.Task
	Token string        // for Extend and Feedback
	Lease time.Duration // from the answer on, unless it is extended

	// Again means that an earlier lease ended unsettled: its worker died or hung.
	Again bool
}

// Pull leases due tasks, and may return none. Tell the outcome of each by Feedback before its lease
// ends, or extend the lease: otherwise the task runs again. Work does all of that.
func (c *Client) Pull(ctx context.Context, pull Pull) ([]Leased, error) {
	at := topicAt(pull.Topic, "/pull")
	found, err := ask[wire.Pulled](ctx, c, http.MethodPost, at, wire.Pull{Max: pull.Max, Lease: wire.Duration(pull.Lease), Wait: wire.Duration(pull.Wait)})
	if err != nil {
		return nil, err
	}
	if found.Tasks == nil || len(found.Tasks) > max(pull.Max, 1) {
		return nil, fmt.Errorf("POST %s: the answer makes no sense: it has %d tasks, must be a list of at most %d", at.path, len(found.Tasks), max(pull.Max, 1))
	}
	return wire.Each(found.Tasks, func(one wire.Leased) Leased {
		return Leased{one.Read(), one.Token, time.Duration(one.Lease), one.Again}
	}), nil
}

// Extend makes a lease end after that time from now: the lease of a pulled task, or of a call answered
// with 202. Zero means the topic's Lease. Extend returns the new length of the lease. It is shorter than
// asked for if the topic's Timeout comes first. Zero means a lost lease: the task runs again, or was set,
// removed or settled.
func (c *Client) Extend(ctx context.Context, token string, lease time.Duration) (time.Duration, error) {
	found, err := ask[wire.Extended](ctx, c, http.MethodPost, place{path: "/v1/extend"}, wire.Extend{Token: token, Lease: wire.Duration(lease)})
	return time.Duration(found.Lease), err
}

// Outcome is the result of a pulled task, or of a call answered with 202. The zero value is success.
type Outcome struct {
	Error      string         // how the attempt failed; empty is success
	Permanent  bool           // excludes another attempt
	RetryAfter *time.Duration // time until the next attempt; nil means by the topic's backoff
	Again      *time.Duration // success, and the task runs again after that time
	Returned   bool           // nobody has begun the task: the attempt does not count
}

// Feedback tells the outcome of a pulled task, or of a call answered with 202 and its
// Heartwheel-Token. Feedback reports false if it comes too late: the lease has ended, and
// the task runs again, or was set, removed or settled.
func (c *Client) Feedback(ctx context.Context, token string, outcome Outcome) (settled bool, err error) {
	found, err := ask[wire.Settled](ctx, c, http.MethodPost, place{path: "/v1/feedback"}, wire.Feedback{
		Token: token, Error: outcome.Error, Permanent: outcome.Permanent, RetryAfter: (*wire.Duration)(outcome.RetryAfter),
		Again: (*wire.Duration)(outcome.Again), Returned: outcome.Returned,
	})
	return found.Settled, err
}
