package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

const (
	// maxWait is the longest wait of a pull. It leaves the engine a third of its time.
	maxWait = 20 * time.Second

	// maxPolls is how many pulls may wait at the same time: half of the connections by default.
	maxPolls = 512

	// maxHandBack is how long the engine may take to have tasks back.
	maxHandBack = 10 * time.Second

	// maxPulled bounds the payloads in answers to pulls, in bytes, until they are sent. An answer
	// has no more than a twelfth of it.
	maxPulled = 64 << 20
)

func (h *Handler) pull(w http.ResponseWriter, r *http.Request, name string) error {
	if err := h.access.work(r, name); err != nil {
		return err
	}
	var asked wire.Pull
	if err := h.decode(w, r, &asked); err != nil {
		return err
	}
	pull := timeout.Pull{Topic: name, Max: asked.Max, Lease: time.Duration(asked.Lease), Wait: time.Duration(asked.Wait)}
	if pull.Wait > maxWait {
		return fmt.Errorf("%w: wait %v, must be at most %v", timeout.ErrArgument, pull.Wait, maxWait)
	}
	leased, err := h.await(r, pull)
	switch { // what every restart of a node or a worker does to many pulls is not worth a line in the log
	case errors.Is(err, timeout.ErrStopping):
		answerProblem(w, problem(http.StatusServiceUnavailable, "this node goes down, and leases no more tasks: ask another"))
		return nil
	case errors.Is(r.Context().Err(), context.Canceled): // nobody reads an answer
		h.handBack(r, leased)
		return nil
	case err != nil:
		return err
	}
	size := int64(0)
	for _, one := range leased {
		size += int64(len(one.Payload))
	}
	begun := time.Now()
	if _, ok := h.reserve(r.Context(), h.pulled, size); !ok {
		h.handBack(r, leased)
		return problem(http.StatusServiceUnavailable, "answers with payloads of %d bytes are on their way, must be at most %d together", size, maxPulled)
	}
	waited := wire.Duration(time.Since(begun).Truncate(time.Millisecond))
	tasks := wire.Each(leased, wire.LeasedOf)
	if slices.ContainsFunc(tasks, func(task wire.Leased) bool { return tooLate(task.Lease, waited) }) {
		h.handBack(r, leased)
		tasks = []wire.Leased{}
	}
	for i := range tasks {
		tasks[i].Lease -= waited
	}
	return answer(w, wire.Pulled{Tasks: tasks}, nil)
}

// tooLate reports whether a lease has become too short in a wait: half of it is over, or less is left than the
// engine grants. The answer says what is left, but it needs some of that for its way to the worker, and another
// pull has all of a lease. Without a wait another pull has no more: the topic's Timeout may be as short.
func tooLate(lease, waited wire.Duration) bool {
	return 2*waited > lease || waited > 0 && lease-waited < wire.Duration(engine.MinLease)
}

// await pulls, with one of the places to wait.
func (h *Handler) await(r *http.Request, pull timeout.Pull) ([]timeout.Leased, error) {
	if pull.Wait > 0 {
		if !h.polls.TryAcquire(1) {
			return nil, problem(http.StatusServiceUnavailable, "other pulls wait at this node, must be at most %d together: ask another, or without wait", maxPolls)
		}
		defer h.polls.Release(1)
	}
	return h.center.Pull(r.Context(), pull)
}

// handBack returns tasks that no answer has. What the engine refuses must wait for the end of its lease.
func (h *Handler) handBack(r *http.Request, leased []timeout.Leased) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), maxHandBack)
	defer cancel()
	_ = h.center.Release(ctx, leased...)
}
