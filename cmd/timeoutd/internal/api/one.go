package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// keyOf returns the key in a path. Every id is one segment of the path, with a slash written
// as %2F.
func keyOf(r *http.Request) (timeout.Key, error) {
	key := timeout.Key{Topic: r.PathValue("topic"), ID: r.PathValue("id")}
	return key, key.Check()
}

// ofTask returns the handler of a route with the key of a task in its path.
func ofTask(serve func(http.ResponseWriter, *http.Request, timeout.Key) error) serving {
	return func(w http.ResponseWriter, r *http.Request) error {
		key, err := keyOf(r)
		if err != nil {
			return err
		}
		return serve(w, r, key)
	}
}

// setTask is idempotent but for the version: a repeated request sets the task once.
func (h *Handler) setTask(w http.ResponseWriter, r *http.Request, key timeout.Key) error {
	ifAbsent, err := ifNoneMatch(r)
	if err != nil {
		return err
	}
	var setting wire.Setting
	if err := h.decode(w, r, &setting); err != nil {
		return err
	}
	task, err := setting.Task(key, ifAbsent)
	if err != nil {
		return err
	}
	traced(&task, r)
	found, err := h.center.Set(r.Context(), task)
	if err = cmp.Or(err, found.Err); err != nil {
		return err
	}
	status := http.StatusOK
	if found.Was == timeout.None {
		status = http.StatusCreated
	}
	said := answerOf(found, isSet(task, found))
	if !said.Changed {
		status = http.StatusPreconditionFailed
	}
	return answerAs(w, status, said)
}

// ifNoneMatch reports whether the header If-None-Match protects an existing task.
func ifNoneMatch(r *http.Request) (bool, error) {
	switch value := r.Header.Get("If-None-Match"); value {
	case "":
		return false, nil
	case "*":
		return true, nil
	default:
		return false, fmt.Errorf("%w: If-None-Match %.*q, must be *", timeout.ErrArgument, maxShown, value)
	}
}

func (h *Handler) getTask(w http.ResponseWriter, r *http.Request, key timeout.Key) error {
	tasks, err := h.read(r, []timeout.Key{key})
	if err != nil {
		return err
	}
	if tasks[0].State == timeout.None {
		return problem(http.StatusNotFound, "%v: task %v: it was never set, or has ended; the topic's retain says for how long such tasks are kept", timeout.ErrNotFound, key)
	}
	return answer(w, tasks[0], nil)
}

func (h *Handler) removeTask(w http.ResponseWriter, r *http.Request, key timeout.Key) error {
	found, err := h.center.Remove(r.Context(), key)
	return tell(w, found, err, isRemoved(timeout.Removal{}, found))
}

func (h *Handler) moveTask(w http.ResponseWriter, r *http.Request, key timeout.Key) error {
	var when wire.When
	if err := h.decode(w, r, &when); err != nil {
		return err
	}
	move, err := moveOf(when, key)
	if err != nil {
		return err
	}
	var found timeout.Answer
	if move.Due.IsZero() {
		found, err = h.center.MoveAfter(r.Context(), key, move.After)
	} else {
		found, err = h.center.Move(r.Context(), key, move.Due)
	}
	return tell(w, found, err, isMoved(move, found))
}

// moveOf returns a move. It must have one of the two times.
func moveOf(w wire.When, key timeout.Key) (timeout.Move, error) {
	due, after, err := w.Read()
	switch {
	case err != nil:
		return timeout.Move{}, err
	case w.Due.IsZero() && w.After == nil:
		return timeout.Move{}, fmt.Errorf("%w: a move of %v with neither due nor after, must have one", timeout.ErrArgument, key)
	case after < 0:
		return timeout.Move{}, fmt.Errorf("%w: after %v of %v, must not be negative", timeout.ErrArgument, after, key)
	}
	move := timeout.Move{Key: key, Due: due, After: after}
	return move, move.Check()
}

func (h *Handler) replayTask(w http.ResponseWriter, r *http.Request, key timeout.Key) error {
	found, err := h.center.Replay(r.Context(), []timeout.Key{key})
	if err != nil {
		return err
	}
	return tell(w, found[0], nil, isReplayed(key, found[0]))
}

// tell answers with the result of a call.
func tell(w http.ResponseWriter, found timeout.Answer, err error, changed bool) error {
	return answer(w, answerOf(found, changed), cmp.Or(err, found.Err))
}

func (h *Handler) listExecutions(w http.ResponseWriter, r *http.Request, key timeout.Key) error {
	query := r.URL.Query()
	limit, err := limitOf(query.Get("limit"))
	if err != nil {
		return err
	}
	all, err := h.center.Executions(r.Context(), key, cmp.Or(limit, 100))
	if errors.Is(err, timeout.ErrUnsupported) { // only Redis can be told so
		return problem(http.StatusNotImplemented, "this server keeps no executions: redis-executions is 0, must be more")
	}
	return answer(w, wire.Executions{Executions: wire.Each(all, wire.ExecutionOf)}, err)
}
