package api

import (
	"cmp"
	"context"
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

// verb changes tasks.
type verb[T any] struct {
	do  func(context.Context, []T) ([]timeout.Answer, error)
	has func(T, timeout.Answer) bool // whether a call without an error has changed something
}

func isSet(task timeout.Task, a timeout.Answer) bool     { return !task.IfAbsent || !live(a) }
func isMoved(_ timeout.Move, a timeout.Answer) bool      { return a.Was == timeout.Pending }
func isRemoved(_ timeout.Removal, a timeout.Answer) bool { return live(a) && a.Version == 0 }
func isReplayed(_ timeout.Key, a timeout.Answer) bool    { return a.Was == timeout.Dead }

func live(a timeout.Answer) bool {
	return a.Was == timeout.Pending || a.Was == timeout.Running || a.Was == timeout.Dead
}

func answerOf(a timeout.Answer, changed bool) wire.Answer {
	answer := wire.Answer{Was: a.Was, Version: a.Version, Due: wire.Instant{Time: a.Due}}
	if a.Err != nil {
		problem := problemOf(a.Err)
		answer.Error = &problem
		return answer
	}
	answer.Changed = changed
	return answer
}

// many returns the handler of a verb with a batch in the body.
func many[In, T any](h *Handler, verb verb[T], name string, body func(*list[In]) any, read func(*http.Request, In) (T, error)) serving {
	return func(w http.ResponseWriter, r *http.Request) error {
		all, err := readBatch(h, w, r, name, body, read)
		if err != nil {
			return err
		}
		found, err := verb.do(r.Context(), all)
		if err != nil {
			return err
		}
		said, logged := wire.Answers{Answers: make([]wire.Answer, len(found))}, false
		for i, one := range found {
			said.Answers[i] = answerOf(one, verb.has(all[i], one))
			if p := said.Answers[i].Error; p != nil && isFailure(*p) && !logged {
				h.complain(r, p.Status, one.Err) // the other failures are like it
				logged = true
			}
		}
		return answer(w, said, nil)
	}
}

// readBatch reads a body, and each element of the list in it. Its errors name the element.
func readBatch[In, Out any](h *Handler, w http.ResponseWriter, r *http.Request, name string, body func(*list[In]) any, read func(*http.Request, In) (Out, error)) ([]Out, error) {
	in := listOf[In](name, h.cfg.MaxBatch)
	if err := h.decode(w, r, body(in)); err != nil {
		return nil, err
	}
	if in.list == nil {
		return nil, fmt.Errorf("%w: field %q is not there, must be a list", timeout.ErrArgument, name)
	}
	all := make([]Out, len(in.list))
	for i, one := range in.list {
		var err error
		if all[i], err = read(r, one); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
	}
	return all, nil
}

// checked is for elements that are their own form in JSON.
func checked[T interface{ Check() error }](_ *http.Request, one T) (T, error) {
	return one, one.Check()
}

func keyedTask(r *http.Request, one wire.KeyedSetting) (timeout.Task, error) {
	task, err := one.Task(one.Key, one.IfAbsent)
	traced(&task, r)
	return task, err
}

func keyedMove(_ *http.Request, one wire.KeyedMove) (timeout.Move, error) {
	return moveOf(one.When, one.Key)
}

// dropped is for removals of dead tasks only, and of the given version, if any.
func dropped(_ *http.Request, one timeout.Removal) (timeout.Removal, error) {
	if one.State != timeout.None && one.State != timeout.Dead {
		return one, fmt.Errorf("%w: state %v of what is dropped, must be dead, or not there", timeout.ErrArgument, one.State)
	}
	one.State = timeout.Dead
	return one, one.Check()
}

func (h *Handler) getTasks(w http.ResponseWriter, r *http.Request) error {
	keys, err := readBatch(h, w, r, "keys", keysOf[timeout.Key], checked[timeout.Key])
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

// listTasks answers without payloads: nobody reads them in a list.
func (h *Handler) listTasks(w http.ResponseWriter, r *http.Request, name string) error {
	query := r.URL.Query()
	state, err := engine.ParseState(cmp.Or(query.Get("state"), "pending"))
	if err != nil {
		return err
	}
	limit, err := limitOf(query.Get("limit"))
	if err != nil {
		return err
	}
	metadata, err := metadataOf(query["metadata[]"])
	if err != nil {
		return err
	}
	page, err := h.center.List(r.Context(), timeout.Query{
		Topic: name, State: state, Limit: limit, Cursor: query.Get("cursor"), Metadata: metadata, OmitPayload: true,
	})
	return answer(w, wire.Tasks{Tasks: wire.Each(page.Tasks, h.taskFor(r)), Next: page.Next}, err)
}
