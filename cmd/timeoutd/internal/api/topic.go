package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func (h *Handler) listTopics(w http.ResponseWriter, r *http.Request) error {
	all, err := h.center.Topics(r.Context())
	return answer(w, wire.Topics{Topics: wire.Each(all, h.topicFor(r))}, err)
}

// topicFor returns wire.TopicOf for the sender of a request: whoever can't change topics sees no secrets of callbacks.
func (h *Handler) topicFor(r *http.Request) func(timeout.Topic) wire.Topic {
	if h.access.may(r, Admin) {
		return wire.TopicOf
	}
	return maskedTopic
}

func maskedTopic(topic timeout.Topic) wire.Topic {
	topic.Callback = masked(topic.Callback)
	return wire.TopicOf(topic)
}

// masked returns the callback of a topic or a task without its secrets. Nil stays nil.
func masked(call *timeout.Callback) *timeout.Callback {
	if call == nil {
		return nil
	}
	hidden := call.Masked()
	return &hidden
}

func (h *Handler) getTopic(w http.ResponseWriter, r *http.Request, name string) error {
	topic, err := h.center.Topic(r.Context(), name)
	if err != nil {
		return err
	}
	counts, err := h.center.Count(r.Context(), name)
	return answer(w, wire.TopicCounts{Topic: h.topicFor(r)(topic), Counts: wire.CountsOf(counts)}, err)
}

// ofTopic returns the handler of a route with the name of a topic in its path.
func ofTopic(serve func(w http.ResponseWriter, r *http.Request, topic string) error) serving {
	return func(w http.ResponseWriter, r *http.Request) error {
		name := r.PathValue("topic")
		if err := engine.CheckTopic(name); err != nil {
			return err
		}
		return serve(w, r, name)
	}
}

// changeTopic returns the handler of a PUT or a PATCH. A PUT makes or changes a topic: a missing field becomes the default,
// except the number of slots and the pause, which stay. A PATCH changes what is said of a topic, and a field that is null
// becomes the default. Requests at this node come one after the other; of two at the same time at different nodes the last
// one stays.
func (h *Handler) changeTopic(patch bool) func(http.ResponseWriter, *http.Request, string) error {
	return func(w http.ResponseWriter, r *http.Request, name string) error {
		said := topicBody{patch: patch}
		if err := h.decode(w, r, &said); err != nil {
			return err
		}
		turn := h.turns.of(name)
		if err := turn.Acquire(r.Context(), 1); err != nil {
			return err
		}
		defer turn.Release(1)
		if patch {
			has, err := h.center.Topic(r.Context(), name)
			if err != nil {
				return err
			}
			said.fill(wire.TopicOf(has))
		}
		change, err := h.setTopic(r.Context(), name, &said)
		if err != nil {
			return err
		}
		told := wire.TopicChange{Topic: wire.TopicOf(change.Topic), Rescheduled: change.Rescheduled}
		if lost := said.lost(wire.TopicOf(change.Was), told.Topic); !patch && len(lost) > 0 {
			told.Hint = strings.Join(lost, ", ") + " had another value, and a PUT without them sets the default: PATCH changes only what it names"
		}
		return answerAs(w, http.StatusOK, told)
	}
}

// turns let one request at a time change a topic. Few others have to wait for it, too.
type turns [64]*semaphore.Weighted

func newTurns() (t turns) {
	for i := range t {
		t[i] = semaphore.NewWeighted(1)
	}
	return t
}

var seed = maphash.MakeSeed()

func (t *turns) of(topic string) *semaphore.Weighted {
	return t[maphash.String(seed, topic)%uint64(len(t))]
}

// topicBody is the body of a PUT or a PATCH.
type topicBody struct {
	wire.Topic
	names map[string]json.RawMessage // the fields of the body
	patch bool                       // they may be null
}

// UnmarshalJSON reads the fields. As when other JSON is read, the case of their names makes no difference.
func (b *topicBody) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b.Topic); err != nil {
		return err
	}
	return json.Unmarshal(text, &b.names)
}

// says reports whether the body has a field, and returns its value.
func (b *topicBody) says(field string) (value json.RawMessage, said bool) {
	for name, value := range b.names {
		if strings.EqualFold(name, field) {
			return value, true
		}
	}
	return nil, false
}

// unsaid goes through the fields missing in the body: their names, and their places in the type.
func (b *topicBody) unsaid(yield func(string, int) bool) {
	for i, field := range reflect.VisibleFields(reflect.TypeFor[wire.Topic]()) {
		if _, said := b.says(jsonName(field)); !said && !yield(jsonName(field), i) {
			return
		}
	}
}

// fill sets the missing fields to the settings of the topic. Its slots stay, also if they grow now.
func (b *topicBody) fill(has wire.Topic) {
	has.Slots, has.Paused = 0, false
	for _, i := range b.unsaid {
		reflect.ValueOf(&b.Topic).Elem().Field(i).Set(reflect.ValueOf(has).Field(i))
	}
}

// lost returns the names of the missing fields whose setting has changed.
func (b *topicBody) lost(was, now wire.Topic) (names []string) {
	for name, i := range b.unsaid {
		before, after := reflect.ValueOf(was).Field(i), reflect.ValueOf(now).Field(i)
		if !before.IsZero() && !reflect.DeepEqual(before.Interface(), after.Interface()) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (h *Handler) setTopic(ctx context.Context, name string, topic *topicBody) (timeout.TopicChange, error) {
	if topic.Name != "" && topic.Name != name {
		return timeout.TopicChange{}, fmt.Errorf("%w: name %.*q in the body, must be that of the path, %q, or not there", timeout.ErrArgument, maxShown, topic.Name, name)
	}
	topic.Name = name
	if value, said := topic.says("paused"); said && string(value) != "null" {
		if err := h.checkPaused(ctx, name, topic.Paused); err != nil {
			return timeout.TopicChange{}, err
		}
	}
	defer h.stats.forget()
	change, err := h.center.ChangeTopic(ctx, topic.Read())
	if err != nil && change.Topic.Name != "" {
		err = partly{fmt.Sprintf("topic %s is changed, and %d of its waiting tasks have another time", name, change.Rescheduled), err}
	}
	return change, err
}

// checkPaused refuses another Paused than the topic's, since neither a PUT nor a PATCH changes
// it. Otherwise a caller could take a running topic for a paused one.
func (h *Handler) checkPaused(ctx context.Context, name string, paused bool) error {
	topic, err := h.center.Topic(ctx, name)
	switch {
	case errors.Is(err, timeout.ErrNotFound):
		return nil // the topic is made
	case err == nil && topic.Paused != paused:
		return fmt.Errorf("%w: paused %t of topic %s, which is there with %t: pause and resume change that", timeout.ErrConflict, paused, name, topic.Paused)
	}
	return err
}

func (h *Handler) dropTopic(w http.ResponseWriter, r *http.Request, name string) error {
	if err := h.center.DropTopic(r.Context(), name); err != nil {
		return err
	}
	h.stats.forget()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// pause returns the handler of pause or resume.
func (h *Handler) pause(do func(ctx context.Context, topic string) error) func(http.ResponseWriter, *http.Request, string) error {
	return func(w http.ResponseWriter, r *http.Request, name string) error {
		if err := do(r.Context(), name); err != nil {
			return err
		}
		h.stats.forget()
		topic, err := h.center.Topic(r.Context(), name)
		return answer(w, wire.TopicOf(topic), err)
	}
}
