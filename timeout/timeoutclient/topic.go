package timeoutclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// Topics returns all topics, by name.
func (c *Client) Topics(ctx context.Context) ([]engine.Topic, error) {
	found, err := ask[wire.Topics](ctx, c, http.MethodGet, place{path: "/v1/topics"}, nil)
	return wire.Each(found.Topics, wire.Topic.Read), err
}

// Topic returns a topic, or engine.ErrNotFound. Below scope admin its callback is engine.Callback.Masked.
func (c *Client) Topic(ctx context.Context, name string) (engine.Topic, error) {
	found, err := c.topic(ctx, name)
	return found.Read(), err
}

// Count counts the tasks of a topic.
func (c *Client) Count(ctx context.Context, topic string) (engine.Counts, error) {
	found, err := c.topic(ctx, topic)
	return found.Counts.Read(), err
}

func (c *Client) topic(ctx context.Context, name string) (wire.TopicCounts, error) {
	return ask[wire.TopicCounts](ctx, c, http.MethodGet, topicAt(name, ""), nil)
}

// ChangeTopic changes an existing topic, and leaves what change leaves as it is. change gets the present topic, and the
// token needs scope admin, so that it sees the callback. A change by others meanwhile of another field stays. ChangeTopic
// returns the topic, and how many waiting tasks have another time by a new Every. The pause can't change:
// see Pause.
func (c *Client) ChangeTopic(ctx context.Context, name string, change func(*engine.Topic)) (kept engine.Topic, rescheduled int, err error) {
	found, err := c.topic(ctx, name)
	if err != nil {
		return engine.Topic{}, 0, err
	}
	topic := found.Read()
	before := fieldsOf(topic)
	change(&topic)
	changed := fieldsOf(topic)
	for field, value := range before {
		after, has := changed[field]
		switch {
		case !has:
			changed[field] = json.RawMessage("null") // the default
		case bytes.Equal(value, after):
			delete(changed, field)
		}
	}
	answer, err := ask[wire.TopicChange](ctx, c, http.MethodPatch, topicAt(name, ""), changed)
	return answer.Read(), answer.Rescheduled, err
}

// fieldsOf returns a topic as JSON, by field.
func fieldsOf(topic engine.Topic) map[string]json.RawMessage {
	text, _ := json.Marshal(wire.TopicOf(topic))
	fields := make(map[string]json.RawMessage)
	_ = json.Unmarshal(text, &fields)
	return fields
}

// SetTopic makes a topic, or changes all settings of an existing one but the pause, and returns it
// with the defaults filled in: Every and Callback, too, are gone if the topic has none. See ChangeTopic. Slots of zero
// stay as they are. Fewer slots than there are, and
// Paused of a topic that runs, are engine.ErrConflict.
func (c *Client) SetTopic(ctx context.Context, topic engine.Topic) (engine.Topic, error) {
	return c.changeTopic(ctx, http.MethodPut, topic.Name, "", wire.TopicOf(topic))
}

// SetTopicIf is SetTopic for a topic that still is as was, as another call has returned it with scope admin. Otherwise it
// changes nothing, and the error is engine.ErrChanged. A zero was means that there must be no such topic.
// The pause stays in any case.
func (c *Client) SetTopicIf(ctx context.Context, was, topic engine.Topic) (engine.Topic, error) {
	if was.Name == "" {
		return c.changeTopic(ctx, http.MethodPut, topic.Name, "", wire.TopicOf(topic), "If-None-Match", "*")
	}
	return c.changeTopic(ctx, http.MethodPut, topic.Name, "", wire.TopicOf(topic), "If-Match", wire.TopicOf(was).ETag())
}

// Pause makes a topic accept tasks and run none. It returns the topic.
func (c *Client) Pause(ctx context.Context, topic string) (engine.Topic, error) {
	return c.PauseAs(ctx, topic, wire.Pause{})
}

// PauseUntil is Pause with an end, by the clock of the server's engine. A zero time is engine.ErrArgument.
func (c *Client) PauseUntil(ctx context.Context, topic string, until time.Time) (engine.Topic, error) {
	if until.IsZero() {
		return engine.Topic{}, fmt.Errorf("%w: until %v of a pause of topic %s, must not be zero", engine.ErrArgument, until, topic)
	}
	return c.PauseAs(ctx, topic, wire.Pause{Until: wire.Instant{Time: until.Add(time.Millisecond - 1)}}) // rounded up
}

// PauseAs is Pause with an end, perhaps after a duration.
func (c *Client) PauseAs(ctx context.Context, topic string, pause wire.Pause) (engine.Topic, error) {
	var body any
	if pause != (wire.Pause{}) {
		body = pause
	}
	return c.changeTopic(ctx, http.MethodPost, topic, "/pause", body)
}

// Resume ends a pause. It returns the topic.
func (c *Client) Resume(ctx context.Context, topic string) (engine.Topic, error) {
	return c.changeTopic(ctx, http.MethodPost, topic, "/resume", nil)
}

func (c *Client) changeTopic(ctx context.Context, method, name, rest string, body any, header ...string) (engine.Topic, error) {
	var kept wire.Topic
	if err := c.call(ctx, method, topicAt(name, rest), body, &kept, header...); err != nil {
		return engine.Topic{}, err
	}
	return kept.Read(), nil
}

// DropTopic ends a topic and all tasks in it.
func (c *Client) DropTopic(ctx context.Context, topic string) error {
	return c.call(ctx, http.MethodDelete, topicAt(topic, ""), nil, nil)
}

// Causes says why tasks of a topic are dead: the causes with the most tasks first. other is how many
// tasks have other causes, beyond those that a server tells.
func (c *Client) Causes(ctx context.Context, topic string) (causes []wire.Cause, other int64, err error) {
	groups := make(wire.Groups)
	for cursor := ""; ; {
		told, err := ask[wire.Causes](ctx, c, http.MethodGet, topicAt(topic, "/dead/causes?"+url.Values{"cursor": {cursor}}.Encode()), nil)
		if err != nil {
			return nil, 0, err
		}
		other += told.Other
		for _, one := range told.Causes {
			groups.Add(one)
		}
		if cursor = told.Next; cursor == "" {
			return groups.Sorted(), other, nil
		}
	}
}

// ReplayDead replays the dead tasks of a topic with one cause, its ID, or all if it is empty.
// It returns how many, also beside an error: those are replayed.
func (c *Client) ReplayDead(ctx context.Context, topic, cause string) (int64, error) {
	return c.clear(ctx, topic, "/dead/replay?", cause)
}

// DropDead removes the dead tasks of a topic with one cause, or all if it is empty. It returns how
// many, also beside an error.
func (c *Client) DropDead(ctx context.Context, topic, cause string) (int64, error) {
	return c.clear(ctx, topic, "/dead/drop?", cause)
}

// clear repeats the request as long as the server says that there is more.
func (c *Client) clear(ctx context.Context, topic, rest, cause string) (total int64, err error) {
	query := url.Values{}
	if cause != "" {
		query.Set("cause", cause)
	}
	for {
		cleared, err := ask[wire.Cleared](ctx, c, http.MethodPost, topicAt(topic, rest+query.Encode()), nil)
		if err != nil {
			return total, err
		}
		total += cleared.Changed
		if !cleared.More {
			return total, nil
		}
		query.Set("cursor", cleared.Next)
	}
}

// Stats returns the figures of the server and its topics.
func (c *Client) Stats(ctx context.Context) (wire.Stats, error) {
	return ask[wire.Stats](ctx, c, http.MethodGet, place{path: "/v1/stats"}, nil)
}

// NodeStats returns the figures of the server itself. It asks neither its engine nor other nodes.
func (c *Client) NodeStats(ctx context.Context) (wire.NodeStats, error) {
	return ask[wire.NodeStats](ctx, c, http.MethodGet, place{path: "/v1/here"}, nil)
}

// CloseCircuit closes an open circuit of the server itself, one of the circuits of Stats. Tasks with callbacks of their own that
// were put off come back at their times. The error wraps engine.ErrNotFound if no such circuit is open there.
func (c *Client) CloseCircuit(ctx context.Context, name string) error {
	at := place{path: "/v1/circuits/close?" + url.Values{"circuit": {name}}.Encode()}
	return c.call(ctx, http.MethodPost, at, nil, nil)
}

// Members returns the nodes that share the tasks.
func (c *Client) Members(ctx context.Context) (wire.Members, error) {
	return ask[wire.Members](ctx, c, http.MethodGet, place{path: "/v1/members"}, nil)
}
