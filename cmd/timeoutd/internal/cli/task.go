package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// duration is the value of a flag. It may have days.
type duration time.Duration

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(s string) (err error) {
	parsed, err := engine.ParseDuration(s)
	if err != nil {
		return errors.New("must be a duration such as 1m30s or 2d")
	}
	*d = duration(parsed)
	return nil
}

// durationFlag adds a flag with a duration that is not negative.
func durationFlag(flags *flag.FlagSet, name, usage string, set func(*time.Duration)) {
	flags.Func(name, usage, func(s string) error {
		var d time.Duration
		if err := (*duration)(&d).Set(s); err != nil || d < 0 {
			return errors.New("must be a duration such as 1m30s or 2d, and not negative")
		}
		set(&d)
		return nil
	})
}

// whenFlags adds -after and -due.
func whenFlags(flags *flag.FlagSet) *wire.When {
	when := new(wire.When)
	durationFlag(flags, "after", "time from now, such as 15m", func(d *time.Duration) { when.After = (*wire.Duration)(d) })
	instantFlag(flags, "due", "time such as 2026-01-02T15:04:05Z, or milliseconds since 1970", func(t time.Time) { when.Due.Time = t })
	return when
}

// instantFlag adds a flag with a time.
func instantFlag(flags *flag.FlagSet, name, usage string, set func(time.Time)) {
	flags.Func(name, usage, func(s string) error {
		text := []byte(s)
		if _, err := strconv.ParseInt(s, 10, 64); err != nil {
			text = strconv.AppendQuote(nil, s)
		}
		var at wire.Instant
		err := at.UnmarshalJSON(text)
		set(at.Time)
		return err
	})
}

// callbackFlags adds the flags of a callback.
func callbackFlags(flags *flag.FlagSet, callback **engine.Callback) {
	get := func() *engine.Callback {
		if *callback == nil {
			*callback = new(engine.Callback)
		}
		return *callback
	}
	flags.Func("callback", "what is called: a URL, nats:SUBJECT or redis:STREAM", func(s string) error {
		c := get()
		c.Kind, c.Target = "http", s
		if kind, target, found := strings.Cut(s, ":"); found && (kind == "nats" || kind == "redis") {
			c.Kind, c.Target = kind, target
		}
		return nil
	})
	flags.Func("method", "of an HTTP call", func(s string) error { get().Method = s; return nil })
	pairsFlag(flags, "header", "`name=value` of an HTTP call; can be there several times", func() *map[string]string { return &get().Header })
	durationFlag(flags, "call-timeout", "how long a call may take", func(d *time.Duration) { get().Timeout = *d })
}

// optionFlags adds flags for the options of a task.
func optionFlags(flags *flag.FlagSet, o *engine.Options) {
	flags.IntVar(&o.Retries, "retries", 0, "attempts after the first one, in place of the topic's; negative is none")
	flags.Var((*duration)(&o.Backoff), "backoff", "the wait before the first retry, in place of the topic's")
	flags.Var((*duration)(&o.BackoffMax), "backoff-max", "the longest wait before a retry, in place of the topic's")
	flags.Var((*duration)(&o.Timeout), "timeout", "how long a handler may take, in place of what the topic says; negative is for ever")
	instantFlag(flags, "not-after", "a task that would begin later is dead: a time as of -due", func(t time.Time) { o.NotAfter = t })
	pairsFlag(flags, "metadata", "`name=value` for lists and programs; can be there several times", func() *map[string]string { return &o.Metadata })
}

// pairsFlag adds a flag whose values go into the map of a pointer.
func pairsFlag(flags *flag.FlagSet, name, usage string, of func() *map[string]string) {
	flags.Func(name, usage, func(s string) error {
		key, value, found := strings.Cut(s, "=")
		if !found || key == "" {
			return errors.New("must be name=value")
		}
		pairs := of()
		if *pairs == nil {
			*pairs = make(map[string]string)
		}
		(*pairs)[key] = value
		return nil
	})
}

func setTask(s *session, flags *flag.FlagSet) doing {
	var task engine.Task
	when := whenFlags(flags)
	callbackFlags(flags, &task.Callback)
	payload := flags.String("payload", "", "a JSON `value`; @file reads it, and @- reads standard input")
	raw := flags.Bool("raw", false, "the payload is bytes, and no JSON")
	flags.Func("traceparent", "the trace of its calls, as W3C Trace Context has it", func(s string) error {
		task.Trace = map[string]string{engine.Traceparent: s}
		return engine.CheckTrace(task.Trace)
	})
	flags.BoolVar(&task.OnSchedule, "on-schedule", false, "at the first time of the topic's -every, in place of -after and -due")
	flags.BoolVar(&task.KeepDue, "keep-due", false, "a task that waits or runs keeps its time; -after and -due count for any other; not with -if-absent")
	optionFlags(flags, &task.Options)
	ifAbsent := flags.Bool("if-absent", false, "change nothing where there is a task that waits, runs or is dead")
	return func(ctx context.Context, words []string) (err error) {
		task.Topic, task.ID, task.IfAbsent = words[0], words[1], *ifAbsent
		if task.Due, task.After, err = when.Read(); err != nil {
			return err
		}
		if task.Payload, err = readPayload(*payload, *raw); err != nil {
			return err
		}
		found, err := s.Set(ctx, task)
		if !found.Changed {
			return s.say(err, "%s stays as it is: it is %v", clean(task.Key().String()), found.Was)
		}
		return s.say(err, "%s is set for %s, version %d; it was %v", clean(task.Key().String()), instant(found.Due), found.Version, found.Was)
	}
}

func readPayload(text string, raw bool) ([]byte, error) {
	bytes := []byte(text)
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		var err error
		if name == "-" {
			bytes, err = io.ReadAll(io.LimitReader(os.Stdin, engine.MaxPayload+1))
		} else {
			bytes, err = os.ReadFile(name)
		}
		if err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
	}
	switch {
	case len(bytes) > engine.MaxPayload:
		return nil, misused("the payload has more than %d bytes, must have at most that", engine.MaxPayload)
	case len(bytes) > 0 && !raw && !json.Valid(bytes):
		return nil, misused("the payload %.50q is no JSON; with -raw it may be anything", bytes)
	}
	return bytes, nil
}

func moveTask(s *session, flags *flag.FlagSet) doing {
	when := whenFlags(flags)
	return func(ctx context.Context, words []string) error {
		if when.Due.IsZero() == (when.After == nil) {
			return misused("move with -after and -due, or none of them, must have one")
		}
		key := engine.Key{Topic: words[0], ID: words[1]}
		var found timeoutclient.Answer
		var err error
		if !when.Due.IsZero() {
			found, err = s.Move(ctx, key, when.Due.Time)
		} else {
			found, err = s.MoveAfter(ctx, key, time.Duration(*when.After))
		}
		if !found.Changed {
			return s.say(err, "%s stays as it is: it is %v, and only what is pending can be moved", clean(key.String()), found.Was)
		}
		return s.say(err, "%s is due at %s", clean(key.String()), instant(found.Due))
	}
}

func (s *session) remove(ctx context.Context, words []string) error {
	keys := keysOf(words)
	found, err := s.RemoveAll(ctx, removals(keys, engine.None))
	return s.each(keys, found, err, "is removed")
}

// keysOf returns the keys of a topic and ids.
func keysOf(words []string) []engine.Key {
	return wire.Each(words[1:], func(id string) engine.Key { return engine.Key{Topic: words[0], ID: id} })
}

func removals(keys []engine.Key, state engine.State) []engine.Removal {
	return wire.Each(keys, func(key engine.Key) engine.Removal { return engine.Removal{Key: key, State: state} })
}

// each prints the results of a batch.
func (s *session) each(keys []engine.Key, found []timeoutclient.Answer, err error, done string) error {
	if err := s.answered(err); err != nil {
		return err
	}
	failed := 0
	for i, one := range found {
		switch {
		case one.Err != nil:
			failed++
			fmt.Fprintf(s.out, "%s: %s\n", clean(keys[i].String()), clean(one.Err.Error()))
		case one.Changed:
			fmt.Fprintf(s.out, "%s %s; it was %v\n", clean(keys[i].String()), done, one.Was)
		default:
			fmt.Fprintf(s.out, "%s stays as it is: it is %v\n", clean(keys[i].String()), one.Was)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d could not be done", failed, len(found))
	}
	return nil
}

func (s *session) get(ctx context.Context, words []string) error {
	task, err := s.Get(ctx, engine.Key{Topic: words[0], ID: words[1]})
	payload := string(task.Payload)
	if len(payload) > 0 && (!utf8.Valid(task.Payload) || !json.Valid(task.Payload)) {
		payload = strconv.Quote(payload)
	}
	t := newTable(s.out, task.Key().String(), task.State.String())
	for _, field := range [][2]string{
		{"due", instant(task.Due)},
		{"until", instant(task.Until)},
		{"created", instant(task.Created)},
		{"version", number(task.Version)},
		{"attempts", number(task.Attempts)},
		{"calls", number(task.Calls)},
		{"failures", number(task.Failures)},
		{"error", task.Error},
		{"node", task.Node},
		{"callback", callbackText(task.Callback)},
		{"trace", task.Trace[engine.Traceparent]},
		{"retries", some(task.Options.Retries)},
		{"backoff", some(task.Options.Backoff)},
		{"backoff-max", some(task.Options.BackoffMax)},
		{"timeout", some(task.Options.Timeout)},
		{"not-after", instant(task.Options.NotAfter)},
		{"metadata", pairs(task.Options.Metadata)},
		{"payload", payload},
	} {
		if field[1] != "" {
			t.row(field[0], field[1])
		}
	}
	return s.show(err, t)
}

// some returns a value as text, or nothing for zero.
func some[T comparable](value T) string {
	if value == *new(T) {
		return ""
	}
	return fmt.Sprint(value)
}

// pairs returns metadata as name=value, by name.
func pairs(metadata map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		all = append(all, name+"="+metadata[name])
	}
	return strings.Join(all, " ")
}

func callbackText(c *engine.Callback) string {
	if c == nil {
		return ""
	}
	return strings.Join(strings.Fields(c.Kind+" "+c.Method+" "+c.Target), " ")
}

func listTasks(s *session, flags *flag.FlagSet) doing {
	return s.list(flags, flags.String("state", "pending", "pending, running, done, dead or removed"))
}

func listDead(s *session, flags *flag.FlagSet) doing { return s.list(flags, new("dead")) }

// list prints the tasks in a state. With -json each page is a line.
func (s *session) list(flags *flag.FlagSet, name *string) doing {
	var metadata map[string]string
	pairsFlag(flags, "metadata", "`name=value`: tasks that have it; can be there several times", func() *map[string]string { return &metadata })
	limit, all := flags.Int("limit", 100, "tasks in a page, at most 1000"), flags.Bool("all", false, "all pages")
	return func(ctx context.Context, words []string) error {
		state, err := engine.ParseState(*name)
		if err = cmp.Or(err, checkLimit(*limit)); err != nil {
			return err
		}
		query := engine.Query{Topic: words[0], State: state, Limit: *limit, Metadata: metadata}
		until := map[engine.State]string{engine.Pending: "NEXT", engine.Running: "LEASE ENDS"}[state]
		t := newTable(s.out, "ID", cmp.Or(until, "SINCE"), "ATTEMPTS", "BYTES", "ERROR") // unseen until Flush
		for {
			page, err := s.List(ctx, query)
			for _, task := range page.Tasks {
				t.row(task.ID, instant(task.Until), number(task.Attempts), number(task.PayloadBytes), brief(task.Error, 80))
			}
			if page.Next != "" && !*all {
				t.row("There are more: see -all and -limit.")
			}
			if err := s.show(err, t); err != nil {
				return err
			}
			if page.Next == "" || !*all {
				return nil
			}
			query.Cursor = page.Next
		}
	}
}

// checkLimit refuses a limit of zero, too: the client would leave it to the server.
func checkLimit(limit int) error {
	if limit < 1 || limit > engine.MaxPage {
		return fmt.Errorf("limit \"%d\", must be a number from 1 to %d", limit, engine.MaxPage)
	}
	return nil
}

func listExecutions(s *session, flags *flag.FlagSet) doing {
	limit := flags.Int("limit", 100, "attempts, at most 1000")
	return func(ctx context.Context, words []string) error {
		if err := checkLimit(*limit); err != nil {
			return err
		}
		found, err := s.Executions(ctx, engine.Key{Topic: words[0], ID: words[1]}, *limit)
		t := newTable(s.out, "STARTED", "ATTEMPT", "AS", "TOOK", "NODE", "ERROR")
		for _, e := range found {
			t.row(instant(e.Started), number(e.Attempt), e.As.String(), e.Took.String(), e.Node, brief(e.Error, 80))
		}
		return s.show(err, t)
	}
}

func feedback(s *session, flags *flag.FlagSet) doing {
	var told timeoutclient.Outcome
	flags.StringVar(&told.Error, "error", "", "how it has failed; without it, it has succeeded")
	flags.BoolVar(&told.Permanent, "permanent", false, "there is to be no other attempt")
	durationFlag(flags, "retry-after", "when the next attempt is to be", func(d *time.Duration) { told.RetryAfter = d })
	durationFlag(flags, "again", "it has succeeded, and is to run again after that time", func(d *time.Duration) { told.Again = d })
	flags.BoolVar(&told.Returned, "returned", false, "nobody has begun it, and the attempt does not count")
	return func(ctx context.Context, words []string) error {
		settled, err := s.Feedback(ctx, words[0], told)
		if err == nil && !settled {
			return cmp.Or(s.answered(nil), errors.New("too late: the lease has ended, and the task runs again, or was set, removed or settled"))
		}
		return s.say(err, "settled")
	}
}
