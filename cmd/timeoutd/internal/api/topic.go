package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Topic is timeout.Topic.
type Topic struct {
	Name        string    `json:"name,omitempty"`
	Slots       int       `json:"slots,omitempty"`
	Retries     int       `json:"retries,omitempty"`
	Backoff     Duration  `json:"backoff,omitzero"`
	BackoffMax  Duration  `json:"backoff_max,omitzero"`
	Lease       Duration  `json:"lease,omitzero"`
	Timeout     Duration  `json:"timeout,omitzero"`
	Concurrency int       `json:"concurrency,omitempty"`
	Rate        float64   `json:"rate,omitempty"`
	Retain      Duration  `json:"retain,omitzero"`
	RetainDead  Duration  `json:"retain_dead,omitzero"`
	MaxDead     int       `json:"max_dead,omitempty"`
	RetainLog   Duration  `json:"retain_log,omitzero"`
	Callback    *Callback `json:"callback,omitempty"`
	Paused      bool      `json:"paused,omitempty"`
}

func topicOf(t timeout.Topic) Topic {
	return Topic{
		Name: t.Name, Slots: t.Slots, Retries: t.Retries, Backoff: Duration(t.Backoff), BackoffMax: Duration(t.BackoffMax),
		Lease: Duration(t.Lease), Timeout: Duration(t.Timeout), Concurrency: t.Concurrency, Rate: t.Rate,
		Retain: Duration(t.Retain), RetainDead: Duration(t.RetainDead), MaxDead: t.MaxDead, RetainLog: Duration(t.RetainLog),
		Callback: callbackOf(t.Callback), Paused: t.Paused,
	}
}

func (t Topic) read() timeout.Topic {
	return timeout.Topic{
		Name: t.Name, Slots: t.Slots, Retries: t.Retries, Backoff: time.Duration(t.Backoff), BackoffMax: time.Duration(t.BackoffMax),
		Lease: time.Duration(t.Lease), Timeout: time.Duration(t.Timeout), Concurrency: t.Concurrency, Rate: t.Rate,
		Retain: time.Duration(t.Retain), RetainDead: time.Duration(t.RetainDead), MaxDead: t.MaxDead, RetainLog: time.Duration(t.RetainLog),
		Callback: t.Callback.read(), Paused: t.Paused,
	}
}

// Topics are all topics, by name.
type Topics struct {
	Topics []Topic `json:"topics"`
}

func (h *Handler) listTopics(w http.ResponseWriter, r *http.Request) error {
	all, err := h.centre.Topics(r.Context())
	if err != nil {
		return err
	}
	topics := Topics{make([]Topic, len(all))}
	for i, topic := range all {
		topics.Topics[i] = topicOf(topic)
	}
	return answer(w, http.StatusOK, topics)
}

// TopicCounts is a topic with the number of its tasks.
type TopicCounts struct {
	Topic
	Counts Counts `json:"counts"`
}

// Counts is timeout.Counts.
type Counts struct {
	Pending int64   `json:"pending"`
	Running int64   `json:"running"`
	Done    int64   `json:"done"`
	Dead    int64   `json:"dead"`
	Removed int64   `json:"removed"`
	Due     int64   `json:"due"`
	Lag     float64 `json:"lag_seconds"`
}

func countsOf(c timeout.Counts) Counts {
	return Counts{c.Pending, c.Running, c.Done, c.Dead, c.Removed, c.Due, c.Lag.Seconds()}
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
	return answer(w, http.StatusOK, TopicCounts{topicOf(topic), countsOf(counts)})
}

func nameOf(r *http.Request) (string, error) {
	name := r.PathValue("topic")
	return name, engine.CheckTopic(name)
}

// TopicSetting is the body of a PUT. A nil Paused says nothing about the pause.
type TopicSetting struct {
	Topic
	Paused *bool `json:"paused,omitempty"`
}

// putTopic makes or changes a topic. A missing field becomes the default, except the number of
// slots and the pause: they stay.
func (h *Handler) putTopic(w http.ResponseWriter, r *http.Request) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	var topic TopicSetting
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
	kept, err := h.centre.SetTopic(r.Context(), topic.read())
	if err != nil {
		return err
	}
	h.stats.forget()
	return answer(w, http.StatusOK, topicOf(kept))
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
	return answer(w, http.StatusOK, topicOf(topic))
}
