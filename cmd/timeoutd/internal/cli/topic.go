package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
)

func listTopics(s *session, _ *flag.FlagSet) func(context.Context, []string) error {
	return func(ctx context.Context, _ []string) error {
		var all api.Topics
		more, err := s.ask(ctx, http.MethodGet, "/v1/topics", nil, &all)
		if err != nil || !more {
			return err
		}
		t := newTable(s.out, "TOPIC", "SLOTS", "RETRIES", "BACKOFF", "LEASE", "STATE", "CALLBACK")
		for _, topic := range all.Topics {
			t.row(topic.Name, number(topic.Slots), number(topic.Retries), time.Duration(topic.Backoff).String(),
				time.Duration(topic.Lease).String(), runsOrNot(topic), callbackText(topic.Callback))
		}
		return t.Flush()
	}
}

func runsOrNot(t api.Topic) string {
	if t.Paused {
		return "paused"
	}
	return "runs"
}

// topicFlags adds a flag for each setting of a topic. The flags put their changes into set.
func topicFlags(flags *flag.FlagSet, set *[]func(*api.Topic)) {
	change := func(f func(*api.Topic)) { *set = append(*set, f) }
	for name, field := range map[string]struct {
		help string
		of   func(*api.Topic) *int
	}{
		"slots":       {"in how many parts the tasks are split: a power of two, that can grow", func(t *api.Topic) *int { return &t.Slots }},
		"retries":     {"attempts after the first one; negative is none", func(t *api.Topic) *int { return &t.Retries }},
		"max-dead":    {"dead tasks that are kept, about; negative is any number", func(t *api.Topic) *int { return &t.MaxDead }},
		"concurrency": {"tasks that a node runs at the same time", func(t *api.Topic) *int { return &t.Concurrency }},
	} {
		flags.Func(name, field.help, func(text string) error {
			n, err := strconv.Atoi(text)
			change(func(t *api.Topic) { *field.of(t) = n })
			return err
		})
	}
	for name, field := range map[string]struct {
		help string
		of   func(*api.Topic) *api.Duration
	}{
		"backoff":     {"the wait before the first retry", func(t *api.Topic) *api.Duration { return &t.Backoff }},
		"backoff-max": {"the longest wait before a retry", func(t *api.Topic) *api.Duration { return &t.BackoffMax }},
		"lease":       {"for how long a task belongs to a node that is silent", func(t *api.Topic) *api.Duration { return &t.Lease }},
		"timeout":     {"how long a handler may take", func(t *api.Topic) *api.Duration { return &t.Timeout }},
		"retain":      {"for how long what is done or removed is kept", func(t *api.Topic) *api.Duration { return &t.Retain }},
		"retain-dead": {"for how long what is dead is kept", func(t *api.Topic) *api.Duration { return &t.RetainDead }},
		"retain-log":  {"for how long attempts are kept, of tasks that are there", func(t *api.Topic) *api.Duration { return &t.RetainLog }},
	} {
		flags.Func(name, field.help, func(text string) error {
			d, err := time.ParseDuration(text)
			change(func(t *api.Topic) { *field.of(t) = api.Duration(d) })
			return err
		})
	}
	flags.Func("rate", "tasks that a node begins in a second", func(text string) error {
		f, err := strconv.ParseFloat(text, 64)
		change(func(t *api.Topic) { t.Rate = f })
		return err
	})
}

// changeTopic shows a topic, or changes the given settings and leaves the rest.
func changeTopic(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	var changes []func(*api.Topic)
	var callback *api.Callback
	topicFlags(flags, &changes)
	callbackFlags(flags, &callback)
	return func(ctx context.Context, words []string) error {
		var topic api.TopicCounts
		text, err := s.call(ctx, http.MethodGet, topicPath(words[0]), nil)
		switch {
		case err == nil:
			err = json.Unmarshal(text, &topic)
		case status(err) == http.StatusNotFound && (len(changes) > 0 || callback != nil):
			err = nil // the topic is made
		}
		if err != nil {
			return err
		}
		if len(changes) == 0 && callback == nil {
			return s.showTopic(text, topic)
		}
		for _, change := range changes {
			change(&topic.Topic)
		}
		if callback != nil {
			topic.Callback = callback
		}
		var kept api.Topic
		more, err := s.ask(ctx, http.MethodPut, topicPath(words[0]), topic.Topic, &kept)
		if err != nil || !more {
			return err
		}
		return s.printTopic(kept).Flush()
	}
}

func (s *session) showTopic(text []byte, topic api.TopicCounts) error {
	if s.asJSON {
		_, err := s.out.Write(text)
		return err
	}
	t, c := s.printTopic(topic.Topic), topic.Counts
	t.row("pending", number(c.Pending))
	t.row("due", fmt.Sprintf("%d, for up to %s", c.Due, seconds(c.Lag)))
	t.row("running", number(c.Running))
	t.row("done", number(c.Done))
	t.row("dead", number(c.Dead))
	t.row("removed", number(c.Removed))
	return t.Flush()
}

func (s *session) printTopic(topic api.Topic) table {
	t := newTable(s.out, topic.Name, runsOrNot(topic))
	for _, field := range []struct {
		name  string
		value any
	}{
		{"slots", topic.Slots},
		{"retries", topic.Retries},
		{"backoff", time.Duration(topic.Backoff)},
		{"backoff-max", time.Duration(topic.BackoffMax)},
		{"lease", time.Duration(topic.Lease)},
		{"timeout", time.Duration(topic.Timeout)},
		{"concurrency", topic.Concurrency},
		{"rate", topic.Rate},
		{"retain", time.Duration(topic.Retain)},
		{"retain-dead", time.Duration(topic.RetainDead)},
		{"max-dead", topic.MaxDead},
		{"retain-log", time.Duration(topic.RetainLog)},
		{"callback", or(callbackText(topic.Callback), "-")},
	} {
		t.row(field.name, fmt.Sprint(field.value))
	}
	return t
}

func pauseTopic(verb string) func(*session, *flag.FlagSet) func(context.Context, []string) error {
	return func(s *session, _ *flag.FlagSet) func(context.Context, []string) error {
		return func(ctx context.Context, words []string) error {
			var kept api.Topic
			more, err := s.ask(ctx, http.MethodPost, topicPath(words[0])+"/"+verb, nil, &kept)
			if err == nil && more {
				fmt.Fprintf(s.out, "%s: %s\n", kept.Name, runsOrNot(kept))
			}
			return err
		}
	}
}

func dropTopic(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	sure := flags.Bool("yes", false, "really, with all that is in it")
	return func(ctx context.Context, words []string) error {
		if !*sure {
			return misused("drop-topic ends the topic and loses all tasks in it: say -yes")
		}
		if _, err := s.call(ctx, http.MethodDelete, topicPath(words[0]), nil); err != nil {
			return err
		}
		if !s.asJSON {
			fmt.Fprintf(s.out, "%s is gone\n", words[0])
		}
		return nil
	}
}
