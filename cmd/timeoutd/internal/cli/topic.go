package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func (s *session) topics(ctx context.Context, _ []string) error {
	all, err := s.Topics(ctx)
	t := newTable(s.out, "TOPIC", "SLOTS", "RETRIES", "BACKOFF", "LEASE", "STATE", "CALLBACK")
	for _, topic := range all {
		t.row(topic.Name, number(topic.Slots), number(topic.Retries), topic.Backoff.String(),
			topic.Lease.String(), runsOrNot(topic), servedBy(topic))
	}
	return s.show(err, t)
}

// servedBy says who runs the tasks of a topic.
func servedBy(t engine.Topic) string {
	if t.Pull {
		return "pulled"
	}
	return callbackText(t.Callback)
}

func runsOrNot(t engine.Topic) string {
	switch {
	case !t.Paused:
		return "runs"
	case t.PausedUntil.IsZero():
		return "paused"
	}
	return "paused until " + instant(t.PausedUntil)
}

// topicFlags returns flags for the settings of a topic, with its values.
func topicFlags(t *engine.Topic) *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.IntVar(&t.Slots, "slots", t.Slots, "in how many parts the tasks are split: a power of two, that can grow")
	flags.IntVar(&t.Retries, "retries", t.Retries, "attempts after the first one; negative is none")
	flags.Var((*duration)(&t.Backoff), "backoff", "the wait before the first retry")
	flags.Var((*duration)(&t.BackoffMax), "backoff-max", "the longest wait before a retry")
	flags.Var((*duration)(&t.Lease), "lease", "for how long a task belongs to a node that is silent")
	flags.Var((*duration)(&t.Timeout), "timeout", "how long a handler may take")
	flags.IntVar(&t.Concurrency, "concurrency", t.Concurrency, "tasks that a node runs at the same time")
	flags.IntVar(&t.Priority, "priority", t.Priority, "share of the places of a node while more is due than it may run: 6 gets twice as many as 3; 0 is 1")
	flags.Float64Var(&t.Rate, "rate", t.Rate, "tasks that a node begins in a second; 0 is any number")
	flags.IntVar(&t.GlobalConcurrency, "global-concurrency", t.GlobalConcurrency, "tasks that all nodes together run at the same time, at least as many as slots; 0 is any number")
	flags.Float64Var(&t.GlobalRate, "global-rate", t.GlobalRate, "tasks that all nodes together begin in a second; 0 is any number")
	flags.StringVar(&t.Every, "every", t.Every, `when the tasks run again: an interval, or a cron expression in UTC, or with CRON_TZ=Zone before it; "" for once`)
	flags.Var((*duration)(&t.Retain), "retain", "for how long what is done or removed is kept")
	flags.Var((*duration)(&t.RetainDead), "retain-dead", "for how long what is dead is kept")
	flags.IntVar(&t.MaxDead, "max-dead", t.MaxDead, "dead tasks that are kept, about; negative is any number")
	flags.Var((*duration)(&t.RetainLog), "retain-log", "for how long attempts are kept, of tasks that are there")
	flags.BoolVar(&t.Pull, "pull", t.Pull, "programs ask for the tasks, and there is no callback: see work")
	return flags
}

// changeTopic shows a topic, or changes the given settings and leaves the rest.
func changeTopic(s *session, flags *flag.FlagSet) doing {
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
			kept, err = s.SetTopicIf(ctx, engine.Topic{}, made) // unless somebody else has made it since
		}
		t := s.printTopic(kept)
		if rescheduled > 0 {
			t.row("moved to another time", number(rescheduled))
		}
		return s.show(err, t)
	}
}

func (s *session) showTopic(ctx context.Context, topic engine.Topic) error {
	c, err := s.Count(ctx, topic.Name)
	t := s.printTopic(topic)
	t.row("pending", number(c.Pending))
	t.row("due", fmt.Sprintf("%d, for up to %s", c.Due, seconds(c.Lag.Seconds())))
	t.row("running", number(c.Running))
	t.row("done", number(c.Done))
	t.row("dead", number(c.Dead))
	t.row("removed", number(c.Removed))
	return s.show(err, t)
}

func (s *session) printTopic(topic engine.Topic) table {
	t := newTable(s.out, topic.Name, runsOrNot(topic))
	topic.Priority = max(topic.Priority, 1)
	topicFlags(&topic).VisitAll(func(f *flag.Flag) {
		if f.Name != "pull" { // servedBy says that
			t.row(f.Name, cmp.Or(f.Value.String(), "-"))
		}
	})
	t.row("callback", cmp.Or(servedBy(topic), "-"))
	return t
}

func pauseTopic(s *session, flags *flag.FlagSet) doing {
	var pause wire.Pause
	durationFlag(flags, "for", "how long, such as 15m", func(d *time.Duration) { pause.For = (*wire.Duration)(d) })
	instantFlag(flags, "until", "when tasks run again: a time such as 2026-01-02T15:04:05Z, or milliseconds since 1970", func(t time.Time) { pause.Until.Time = t })
	return func(ctx context.Context, words []string) error {
		kept, err := s.PauseAs(ctx, words[0], pause)
		return s.say(err, "%s: %s", kept.Name, runsOrNot(kept))
	}
}

func (s *session) resume(ctx context.Context, words []string) error {
	kept, err := s.Resume(ctx, words[0])
	return s.say(err, "%s: %s", kept.Name, runsOrNot(kept))
}

func (s *session) closeCircuit(ctx context.Context, words []string) error {
	return s.say(s.CloseCircuit(ctx, words[0]), "%s is closed", words[0])
}

func dropTopic(s *session, flags *flag.FlagSet) doing {
	sure := flags.Bool("yes", false, "really, with all that is in it")
	return func(ctx context.Context, words []string) error {
		if !*sure {
			return misused("drop-topic ends the topic and loses all tasks in it: say -yes")
		}
		return s.say(s.DropTopic(ctx, words[0]), "%s is gone", words[0])
	}
}
