package api

import (
	"fmt"
	"net/http"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

const (
	// maxAnswer is the limit for the payloads of one answer, in bytes.
	maxAnswer = 16 << 20

	// maxGot bounds the payloads in answers with tasks, in bytes, until they are sent.
	maxGot = 4 * maxAnswer

	// getSize is how many tasks are read at a time. Their payloads are no more than maxAnswer.
	getSize = maxAnswer / engine.MaxPayload
)

// readKeys reads a batch of keys or removals.
func readKeys[T interface{ Check() error }](h *Handler, w http.ResponseWriter, r *http.Request) ([]T, error) {
	batch := keysIn[T]{listOf[T]("keys", h.cfg.MaxBatch)}
	return readBatch(h, w, r, &batch, &batch.Keys, func(key T) (T, error) { return key, key.Check() })
}

// readBatch reads a body, and each element of the list in it. Its errors name the element.
func readBatch[In, Out any](h *Handler, w http.ResponseWriter, r *http.Request, body any, in *list[In], read func(In) (Out, error)) ([]Out, error) {
	if err := h.decode(w, r, body); err != nil {
		return nil, err
	}
	if in.list == nil {
		return nil, fmt.Errorf("%w: field %q is not there, must be a list", timeout.ErrArgument, in.name)
	}
	all := make([]Out, len(in.list))
	for i, one := range in.list {
		var err error
		if all[i], err = read(one); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", in.name, i, err)
		}
	}
	return all, nil
}

func (h *Handler) getTasks(w http.ResponseWriter, r *http.Request) error {
	keys, err := readKeys[timeout.Key](h, w, r)
	if err != nil {
		return err
	}
	tasks, err := h.read(r, keys)
	return answer(w, wire.Tasks{Tasks: tasks}, err)
}

// taskFor returns wire.TaskOf for the sender of a request: whoever can't set tasks sees no secrets of callbacks.
func (h *Handler) taskFor(r *http.Request) func(timeout.Task) wire.Task {
	if h.access.may(r, Write) {
		return wire.TaskOf
	}
	return func(task timeout.Task) wire.Task {
		task.Callback = masked(task.Callback)
		return wire.TaskOf(task)
	}
}

// read returns tasks, also missing ones. Their payloads take room until the request is done. If there is
// none, read drops them, waits, and reads again: any number of requests may wait.
func (h *Handler) read(r *http.Request, keys []timeout.Key) ([]wire.Task, error) {
	ctx, taskOf := r.Context(), h.taskFor(r)
	tasks := []wire.Task{} // not null in JSON
	var size int64
	var keep func(int64) // the size
	for len(tasks) < len(keys) {
		chunk := keys[len(tasks):min(len(tasks)+getSize, len(keys))]
		found, err := h.center.GetAll(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for i, task := range found {
			task.Topic, task.ID = chunk[i].Topic, chunk[i].ID // also of a missing task
			tasks = append(tasks, taskOf(task))
			size += int64(len(task.Payload))
		}
		if n := len(tasks); size > maxAnswer && n > 1 {
			return nil, fmt.Errorf("%w: the payloads of the first %d tasks have %d bytes, must have at most %d: ask for fewer", timeout.ErrArgument, n, size, maxAnswer)
		}
		if keep != nil || size <= smallBody {
			continue
		}
		most := size
		if len(tasks) < len(keys) { // nobody knows how many bytes are to come
			most = maxAnswer
		}
		if !h.got.TryAcquire(most) {
			tasks, size = nil, 0
			if !h.wait(ctx, h.got, most) {
				return nil, problem(http.StatusServiceUnavailable, "the answers to other requests have so many bytes of payloads that there is no room for %d more, must have at most %d together", most, maxGot)
			}
		}
		held := held(ctx, h.got, most)
		keep = func(size int64) { held(min(size, most)) } // a task may be another one by now
	}
	if keep != nil {
		keep(size)
	}
	return tasks, nil
}

func (h *Handler) setTasks(w http.ResponseWriter, r *http.Request) error {
	batch := settingsIn{listOf[wire.KeyedSetting]("tasks", h.cfg.MaxBatch)}
	tasks, err := readBatch(h, w, r, &batch, &batch.Tasks, func(one wire.KeyedSetting) (timeout.Task, error) {
		task, err := one.Task(one.Key, one.IfAbsent)
		traced(&task, r)
		return task, err
	})
	if err != nil {
		return err
	}
	found, err := h.center.SetAll(r.Context(), tasks)
	return h.tellAll(w, r, found, err, func(i int) effect { return setEffect(tasks[i].IfAbsent) })
}

func (h *Handler) moveTasks(w http.ResponseWriter, r *http.Request) error {
	batch := movesIn{listOf[wire.KeyedMove]("moves", h.cfg.MaxBatch)}
	moves, err := readBatch(h, w, r, &batch, &batch.Moves, func(one wire.KeyedMove) (timeout.Move, error) {
		move, err := moveOf(one.When, one.Key)
		if err == nil {
			err = move.Check()
		}
		return move, err
	})
	if err != nil {
		return err
	}
	found, err := h.center.MoveAll(r.Context(), moves)
	return h.tellAll(w, r, found, err, func(int) effect { return movable })
}

func (h *Handler) removeTasks(w http.ResponseWriter, r *http.Request) error {
	removals, err := readKeys[timeout.Removal](h, w, r)
	if err != nil {
		return err
	}
	found, err := h.center.RemoveAll(r.Context(), removals)
	return h.tellAll(w, r, found, err, func(int) effect { return removable })
}

func (h *Handler) replayTasks(w http.ResponseWriter, r *http.Request) error {
	keys, err := readKeys[timeout.Key](h, w, r)
	if err != nil {
		return err
	}
	found, err := h.center.Replay(r.Context(), keys)
	return h.tellAll(w, r, found, err, func(int) effect { return replayable })
}

// tellAll answers with the results of a batch. It logs the first failure among them: the others are like it.
func (h *Handler) tellAll(w http.ResponseWriter, r *http.Request, found []timeout.Answer, err error, has func(int) effect) error {
	if err != nil {
		return err
	}
	said, logged := wire.Answers{Answers: make([]wire.Answer, len(found))}, false
	for i, one := range found {
		said.Answers[i] = answerOf(one, has(i))
		if p := said.Answers[i].Error; p != nil && isFailure(*p) && !logged {
			h.complain(r, p.Status, one.Err)
			logged = true
		}
	}
	return answer(w, said, nil)
}

// listTasks answers without payloads: nobody reads them in a list.
func (h *Handler) listTasks(w http.ResponseWriter, r *http.Request, name string) error {
	query := r.URL.Query()
	state := timeout.Pending
	if name := query.Get("state"); name != "" {
		var err error
		if state, err = engine.ParseState(name); err != nil {
			return err
		}
	}
	limit, err := limitOf(query.Get("limit"))
	if err != nil {
		return err
	}
	page, err := h.center.List(r.Context(), timeout.Query{
		Topic: name, State: state, Limit: limit, Cursor: query.Get("cursor"), OmitPayload: true,
	})
	return answer(w, wire.Tasks{Tasks: wire.Each(page.Tasks, h.taskFor(r)), Next: page.Next}, err)
}
