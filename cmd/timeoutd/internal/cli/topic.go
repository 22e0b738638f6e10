package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func listTopics(s *session, _ *flag.FlagSet) func(context.Context, []string) error {
	return func(ctx context.Context, _ []string) error {
		all, err := s.Topics(ctx)
		if done, err := s.done(err); done {
			return err
		}
		t := newTable(s.out, "TOPIC", "SLOTS", "RETRIES", "BACKOFF", "LEASE", "STATE", "CALLBACK")
		for _, topic := range all {
			t.row(topic.Name, number(topic.Slots), number(topic.Retries), topic.Backoff.String(),
				topic.Lease.String(), runsOrNot(topic), servedBy(topic))
		}
		return t.Flush()
	}
}

// servedBy says who runs the tasks of a topic.
func servedBy(t engine.Topic) string {
	if t.Pull {
		return "pulled"
	}
	return callbackText(t.Callback)
}

func runsOrNot(t engine.Topic) string {
	if t.Paused {
		return "paused"
	}
	return "runs"
}

// topicFlags adds a flag for each setting of a topic. The flags put their changes into set.
func topicFlags(flags *flag.FlagSet, set *[]func(*engine.Topic)) {
	change := func(f func(*engine.Topic)) { *set = append(*set, f) }
	for name, field := range map[string]struct {
		help string
		of   func(*engine.Topic) *int
	}{
		"slots":       {"in how many parts the tasks are split: a power of two, that can grow", func(t *engine.Topic) *int { return &t.Slots }},
		"retries":     {"attempts after the first one; negative is none", func(t *engine.Topic) *int { return &t.Retries }},
		"max-dead":    {"dead tasks that are kept, about; negative is any number", func(t *engine.Topic) *int { return &t.MaxDead }},
		"concurrency": {"tasks that a node runs at the same time", func(t *engine.Topic) *int { return &t.Concurrency }},

		"priority":           {"share of the places of a node while more is due than it may run: 6 gets twice as many as 3; 0 is 1", func(t *engine.Topic) *int { return &t.Priority }},
		"global-concurrency": {"tasks that all nodes together run at the same time, at least as many as slots; 0 is any number", func(t *engine.Topic) *int { return &t.GlobalConcurrency }},
	} {
		flags.Func(name, field.help, func(text string) error {
			n, err := strconv.Atoi(text)
			change(func(t *engine.Topic) { *field.of(t) = n })
			return err
		})
	}
	for name, field := range map[string]struct {
		help string
		of   func(*engine.Topic) *time.Duration
	}{
		"backoff":     {"the wait before the first retry", func(t *engine.Topic) *time.Duration { return &t.Backoff }},
		"backoff-max": {"the longest wait before a retry", func(t *engine.Topic) *time.Duration { return &t.BackoffMax }},
		"lease":       {"for how long a task belongs to a node that is silent", func(t *engine.Topic) *time.Duration { return &t.Lease }},
		"timeout":     {"how long a handler may take", func(t *engine.Topic) *time.Duration { return &t.Timeout }},
		"retain":      {"for how long what is done or removed is kept", func(t *engine.Topic) *time.Duration { return &t.Retain }},
		"retain-dead": {"for how long what is dead is kept", func(t *engine.Topic) *time.Duration { return &t.RetainDead }},
		"retain-log":  {"for how long attempts are kept, of tasks that are there", func(t *engine.Topic) *time.Duration { return &t.RetainLog }},
	} {
		flags.Func(name, field.help, func(text string) error {
			d, err := time.ParseDuration(text)
			change(func(t *engine.Topic) { *field.of(t) = d })
			return err
		})
	}
	flags.BoolFunc("pull", "programs ask for the tasks, and there is no callback: see work", func(text string) error {
		pull, err := strconv.ParseBool(text)
		change(func(t *engine.Topic) {
			if t.Pull = pull; pull {
				t.Callback = nil
			}
		})
		return err
	})
	flags.Func("every", `when the tasks run again: an interval, or a cron expression in UTC, or with CRON_TZ=Zone before it; "" for once`, func(text string) error {
		change(func(t *engine.Topic) { t.Every = text })
		return nil
	})
	for name, field := range map[string]struct {
		help string
		of   func(*engine.Topic) *float64
	}{
		"rate":        {"tasks that a node begins in a second; 0 is any number", func(t *engine.Topic) *float64 { return &t.Rate }},
		"global-rate": {"tasks that all nodes together begin in a second; 0 is any number", func(t *engine.Topic) *float64 { return &t.GlobalRate }},
	} {
		flags.Func(name, field.help, func(text string) error {
			f, err := strconv.ParseFloat(text, 64)
			change(func(t *engine.Topic) { *field.of(t) = f })
			return err
		})
	}
}

// changeTopic shows a topic, or changes the given settings and leaves the rest.
func changeTopic(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	var changes []func(*engine.Topic)
	var callback *engine.Callback
	topicFlags(flags, &changes)
	callbackFlags(flags, &callback)
	return func(ctx context.Context, words []string) error {
		changed := len(changes) > 0 || callback != nil
		topic, err := s.Topic(ctx, words[0])
		s.said.text.Reset() // the next answer is the one to print
		switch {
		case changed && errors.Is(err, engine.ErrNotFound):
			topic.Name = words[0] // the topic is made
		case err != nil:
			return err
		case !changed:
			return s.showTopic(ctx, topic)
		}
		for _, change := range changes {
			change(&topic)
		}
		if callback != nil {
			topic.Callback = callback
		}
		kept, err := s.SetTopic(ctx, topic)
		if done, err := s.done(err); done {
			return err
		}
		return s.printTopic(kept).Flush()
	}
}

func (s *session) showTopic(ctx context.Context, topic engine.Topic) error {
	c, err := s.Count(ctx, topic.Name)
	if done, err := s.done(err); done {
		return err
	}
	t := s.printTopic(topic)
	t.row("pending", number(c.Pending))
	t.row("due", fmt.Sprintf("%d, for up to %s", c.Due, seconds(c.Lag.Seconds())))
	t.row("running", number(c.Running))
	t.row("done", number(c.Done))
	t.row("dead", number(c.Dead))
	t.row("removed", number(c.Removed))
	return t.Flush()
}

func (s *session) printTopic(topic engine.Topic) table {
	t := newTable(s.out, topic.Name, runsOrNot(topic))
	for _, field := range []struct {
		name  string
		value any
	}{
		{"slots", topic.Slots},
		{"retries", topic.Retries},
		{"backoff", topic.Backoff},
		{"backoff-max", topic.BackoffMax},
		{"lease", topic.Lease},
		{"timeout", topic.Timeout},
		{"concurrency", topic.Concurrency},
		{"priority", max(topic.Priority, 1)},
		{"rate", topic.Rate},
		{"global-concurrency", topic.GlobalConcurrency},
		{"global-rate", topic.GlobalRate},
		{"every", or(topic.Every, "-")},
		{"retain", topic.Retain},
		{"retain-dead", topic.RetainDead},
		{"max-dead", topic.MaxDead},
		{"retain-log", topic.RetainLog},
		{"callback", or(servedBy(topic), "-")},
	} {
		t.row(field.name, fmt.Sprint(field.value))
	}
	return t
}

func pauseTopic(verb string) func(*session, *flag.FlagSet) func(context.Context, []string) error {
	return func(s *session, _ *flag.FlagSet) func(context.Context, []string) error {
		return func(ctx context.Context, words []string) error {
			do := s.Pause
			if verb == "resume" {
				do = s.Resume
			}
			kept, err := do(ctx, words[0])
			if done, err := s.done(err); done {
				return err
			}
			fmt.Fprintf(s.out, "%s: %s\n", kept.Name, runsOrNot(kept))
			return nil
		}
	}
}

func dropTopic(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	sure := flags.Bool("yes", false, "really, with all that is in it")
	return func(ctx context.Context, words []string) error {
		if !*sure {
			return misused("drop-topic ends the topic and loses all tasks in it: say -yes")
		}
		if err := s.DropTopic(ctx, words[0]); err != nil {
			return err
		}
		if !s.asJSON {
			fmt.Fprintf(s.out, "%s is gone\n", words[0])
		}
		return nil
	}
}
