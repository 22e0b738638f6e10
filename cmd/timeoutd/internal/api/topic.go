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
	if err != nil {
		return err
	}
	topics := wire.Topics{Topics: make([]wire.Topic, len(all))}
	for i, topic := range all {
		topics.Topics[i] = wire.TopicOf(topic)
	}
	return answer(w, http.StatusOK, topics)
}

func (h *Handler) getTopic(w http.ResponseWriter, r *http.Request) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	topic, err := h.centre.Topic(r.Context(), name)
	if err != nil {
		return err
	}
	counts, err := h.centre.Count(r.Context(), name)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wire.TopicCounts{Topic: wire.TopicOf(topic), Counts: wire.CountsOf(counts)})
}

func nameOf(r *http.Request) (string, error) {
	name := r.PathValue("topic")
	return name, engine.CheckTopic(name)
}

// putTopic makes or changes a topic. A missing field becomes the default, except the number of
// slots and the pause: they stay.
func (h *Handler) putTopic(w http.ResponseWriter, r *http.Request) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
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
	if err != nil {
		return err
	}
	h.stats.forget()
	return answer(w, http.StatusOK, wire.TopicOf(kept))
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

func (h *Handler) dropTopic(w http.ResponseWriter, r *http.Request) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	if err := h.centre.DropTopic(r.Context(), name); err != nil {
		return err
	}
	h.stats.forget()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) pauseTopic(w http.ResponseWriter, r *http.Request) error {
	return h.pause(w, r, h.centre.Pause)
}

func (h *Handler) resumeTopic(w http.ResponseWriter, r *http.Request) error {
	return h.pause(w, r, h.centre.Resume)
}

func (h *Handler) pause(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, topic string) error) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	if err := do(r.Context(), name); err != nil {
		return err
	}
	h.stats.forget()
	topic, err := h.centre.Topic(r.Context(), name)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wire.TopicOf(topic))
}
