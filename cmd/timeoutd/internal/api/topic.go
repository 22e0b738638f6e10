package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func (h *Handler) listTopics(w http.ResponseWriter, r *http.Request) error {
	all, err := h.centre.Topics(r.Context())
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
	topic, err := h.centre.Topic(r.Context(), name)
	if err != nil {
		return err
	}
	counts, err := h.centre.Count(r.Context(), name)
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
	var topic wire.TopicSetting
	if err := h.decode(w, r, &topic); err != nil {
		return err
	}
	if topic.Name != "" && topic.Name != name {
		return fmt.Errorf("%w: name %.*q in the body, must be that of the path, %q, or not there", timeout.ErrArgument, maxShown, topic.Name, name)
	}
	topic.Name = name
	if topic.Paused != nil {
		if err := h.checkPaused(r.Context(), name, *topic.Paused); err != nil {
			return err
		}
		topic.Topic.Paused = *topic.Paused
	}
	kept, err := h.centre.SetTopic(r.Context(), topic.Read())
	h.stats.forget()
	return answer(w, wire.TopicOf(kept), err)
}

// checkPaused refuses a PUT with another Paused than the topic's, since a PUT does not change
// it. Otherwise a caller could take a running topic for a paused one.
func (h *Handler) checkPaused(ctx context.Context, name string, paused bool) error {
	topic, err := h.centre.Topic(ctx, name)
	switch {
	case errors.Is(err, timeout.ErrNotFound):
		return nil // the topic is made
	case err == nil && topic.Paused != paused:
		return fmt.Errorf("%w: paused %t of topic %s, which is there with %t: pause and resume change that", timeout.ErrConflict, paused, name, topic.Paused)
	}
	return err
}

func (h *Handler) dropTopic(w http.ResponseWriter, r *http.Request, name string) error {
	if err := h.centre.DropTopic(r.Context(), name); err != nil {
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
		topic, err := h.centre.Topic(r.Context(), name)
		return answer(w, wire.TopicOf(topic), err)
	}
}
