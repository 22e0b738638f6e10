package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
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

// putTopic makes or changes a topic. A missing field becomes the default, except the number of
// slots and the pause: they stay.
func (h *Handler) putTopic(w http.ResponseWriter, r *http.Request, name string) error {
	said := make(settings)
	change, err := h.changeTopic(w, r, name, &said, func() (settings, error) { return said, nil })
	if err != nil {
		return err
	}
	answer := wire.TopicChange{Topic: wire.TopicOf(change.Topic), Rescheduled: change.Rescheduled}
	if lost := lostSettings(wire.TopicOf(change.Was), answer.Topic, said); len(lost) > 0 {
		answer.Hint = strings.Join(lost, ", ") + " had another value, and a PUT without them sets the default: PATCH changes only what it names"
	}
	return answerAs(w, http.StatusOK, answer)
}

// patchTopic changes what is said of a topic. A field that is null becomes the default.
func (h *Handler) patchTopic(w http.ResponseWriter, r *http.Request, name string) error {
	said := make(patch)
	change, err := h.changeTopic(w, r, name, &said, func() (settings, error) { return h.merge(r.Context(), name, said) })
	return answer(w, wire.TopicChange{Topic: wire.TopicOf(change.Topic), Rescheduled: change.Rescheduled}, err)
}

// changeTopic reads what a request says, and makes or changes the topic with all settings that come of it. Requests at
// this node come one after the other; of two at the same time at different nodes the last one stays.
func (h *Handler) changeTopic(w http.ResponseWriter, r *http.Request, name string, said any, all func() (settings, error)) (timeout.TopicChange, error) {
	if err := h.decode(w, r, said); err != nil {
		return timeout.TopicChange{}, err
	}
	turn := h.turns.of(name)
	if err := turn.Acquire(r.Context(), 1); err != nil {
		return timeout.TopicChange{}, err
	}
	defer turn.Release(1)
	fields, err := all()
	if err != nil {
		return timeout.TopicChange{}, err
	}
	return h.setTopic(r.Context(), name, fields)
}

// merge returns the settings of a topic with a patch.
func (h *Handler) merge(ctx context.Context, name string, said patch) (settings, error) {
	if err := said.check(); err != nil {
		return nil, err
	}
	topic, err := h.center.Topic(ctx, name)
	if err != nil {
		return nil, err
	}
	merged := settingsOf(wire.TopicOf(topic))
	merged.drop("slots") // they stay, also if they grow now
	merged.drop("paused")
	for field, value := range said {
		merged.drop(field)
		if string(value) != "null" {
			merged[field] = value
		}
	}
	return merged, nil
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

// settings are the fields of a topic in JSON. In a patch they may be null.
type (
	settings map[string]json.RawMessage
	patch    settings
)

// check refuses a null in a field that no topic has. The decoder sees the other values.
func (p patch) check() error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		known := func(field reflect.StructField) bool {
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			return strings.EqualFold(tag, name)
		}
		if string(p[name]) == "null" && !slices.ContainsFunc(reflect.VisibleFields(reflect.TypeFor[wire.Topic]()), known) {
			return fmt.Errorf("%w: unknown field %.*q", timeout.ErrArgument, maxShown, name)
		}
	}
	return nil
}

func settingsOf(topic wire.Topic) settings {
	text, _ := json.Marshal(topic) // numbers are checked, so that none is no JSON
	all := make(settings)
	_ = json.Unmarshal(text, &all)
	return all
}

// drop removes a field. As when JSON is read, case makes no difference.
func (s settings) drop(name string) {
	maps.DeleteFunc(s, func(field string, _ json.RawMessage) bool { return strings.EqualFold(field, name) })
}

// lostSettings returns the names of the settings that have another value than before and are not said.
func lostSettings(was, now wire.Topic, said settings) (lost []string) {
	before, after := settingsOf(was), settingsOf(now)
	for name := range said {
		before.drop(name)
	}
	for name, value := range before {
		if !bytes.Equal(value, after[name]) {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	return lost
}

// setTopic makes or changes a topic as the fields say.
func (h *Handler) setTopic(ctx context.Context, name string, said settings) (timeout.TopicChange, error) {
	text, err := json.Marshal(said)
	if err != nil {
		return timeout.TopicChange{}, err
	}
	var topic wire.TopicSetting
	if err := unmarshal(text, &topic); err != nil {
		return timeout.TopicChange{}, err
	}
	if topic.Name != "" && topic.Name != name {
		return timeout.TopicChange{}, fmt.Errorf("%w: name %.*q in the body, must be that of the path, %q, or not there", timeout.ErrArgument, maxShown, topic.Name, name)
	}
	topic.Name = name
	if topic.Paused != nil {
		if err := h.checkPaused(ctx, name, *topic.Paused); err != nil {
			return timeout.TopicChange{}, err
		}
		topic.Topic.Paused = *topic.Paused
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
