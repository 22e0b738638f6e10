package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"

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

// topicFlags returns flags for the settings of a topic.
func topicFlags(t *engine.Topic) *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.IntVar(&t.Slots, "slots", 0, "in how many parts the tasks are split: a power of two, that can grow")
	flags.IntVar(&t.Retries, "retries", 0, "attempts after the first one; negative is none")
	flags.DurationVar(&t.Backoff, "backoff", 0, "the wait before the first retry")
	flags.DurationVar(&t.BackoffMax, "backoff-max", 0, "the longest wait before a retry")
	flags.DurationVar(&t.Lease, "lease", 0, "for how long a task belongs to a node that is silent")
	flags.DurationVar(&t.Timeout, "timeout", 0, "how long a handler may take")
	flags.IntVar(&t.Concurrency, "concurrency", 0, "tasks that a node runs at the same time")
	flags.IntVar(&t.Priority, "priority", 0, "share of the places of a node while more is due than it may run: 6 gets twice as many as 3; 0 is 1")
	flags.Float64Var(&t.Rate, "rate", 0, "tasks that a node begins in a second; 0 is any number")
	flags.IntVar(&t.GlobalConcurrency, "global-concurrency", 0, "tasks that all nodes together run at the same time, at least as many as slots; 0 is any number")
	flags.Float64Var(&t.GlobalRate, "global-rate", 0, "tasks that all nodes together begin in a second; 0 is any number")
	flags.StringVar(&t.Every, "every", "", `when the tasks run again: an interval, or a cron expression in UTC, or with CRON_TZ=Zone before it; "" for once`)
	flags.DurationVar(&t.Retain, "retain", 0, "for how long what is done or removed is kept")
	flags.DurationVar(&t.RetainDead, "retain-dead", 0, "for how long what is dead is kept")
	flags.IntVar(&t.MaxDead, "max-dead", 0, "dead tasks that are kept, about; negative is any number")
	flags.DurationVar(&t.RetainLog, "retain-log", 0, "for how long attempts are kept, of tasks that are there")
	flags.BoolVar(&t.Pull, "pull", false, "programs ask for the tasks, and there is no callback: see work")
	return flags
}

// changeTopic shows a topic, or changes the given settings and leaves the rest.
func changeTopic(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	var topic engine.Topic
	var callback *engine.Callback
	settings := topicFlags(&topic)
	settings.VisitAll(func(f *flag.Flag) { flags.Var(f.Value, f.Name, f.Usage) })
	callbackFlags(flags, &callback)
	return func(ctx context.Context, words []string) error {
		given := make(map[string]string)
		flags.Visit(func(f *flag.Flag) {
			if settings.Lookup(f.Name) != nil {
				given[f.Name] = f.Value.String()
			}
		})
		if len(given) == 0 && callback == nil {
			topic, err := s.Topic(ctx, words[0])
			if err != nil {
				return err
			}
			s.said.text.Reset() // the next answer is the one to print
			return s.showTopic(ctx, topic)
		}
		change := func(has *engine.Topic) { // sets what is said over the settings that it has
			s.said.text.Reset()
			topic = *has
			for name, value := range given {
				_ = settings.Set(name, value) // it has been set before
			}
			if given["pull"] == "true" {
				topic.Callback = nil
			}
			if callback != nil {
				topic.Callback = callback
			}
			*has = topic
		}
		kept, rescheduled, err := s.ChangeTopic(ctx, words[0], change)
		if errors.Is(err, engine.ErrNotFound) { // the topic is made
			made := engine.Topic{Name: words[0]}
			change(&made)
			kept, err = s.SetTopic(ctx, made)
		}
		if done, err := s.done(err); done {
			return err
		}
		t := s.printTopic(kept)
		if rescheduled > 0 {
			t.row("moved to another time", number(rescheduled))
		}
		return t.Flush()
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
		{"every", cmp.Or(topic.Every, "-")},
		{"retain", topic.Retain},
		{"retain-dead", topic.RetainDead},
		{"max-dead", topic.MaxDead},
		{"retain-log", topic.RetainLog},
		{"callback", cmp.Or(servedBy(topic), "-")},
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
