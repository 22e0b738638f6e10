package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// whenFlags adds -after and -due.
func whenFlags(flags *flag.FlagSet) *api.When {
	when := new(api.When)
	flags.Func("after", "time from now, such as 15m", func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			return fmt.Errorf("must be a duration such as 1m30s, and not negative")
		}
		when.After = (*api.Duration)(&d)
		return nil
	})
	flags.Func("due", "time such as 2026-01-02T15:04:05Z, or milliseconds since 1970", func(s string) error {
		text := []byte(s)
		if _, err := strconv.ParseInt(s, 10, 64); err != nil {
			text = strconv.AppendQuote(nil, s)
		}
		when.Due = new(api.Instant)
		return when.Due.UnmarshalJSON(text)
	})
	return when
}

// callbackFlags adds the flags of a callback.
func callbackFlags(flags *flag.FlagSet, callback **api.Callback) {
	get := func() *api.Callback {
		if *callback == nil {
			*callback = new(api.Callback)
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
	flags.Func("header", "`name=value` of an HTTP call; can be there several times", func(s string) error {
		name, value, found := strings.Cut(s, "=")
		if !found || name == "" {
			return fmt.Errorf("must be name=value")
		}
		c := get()
		if c.Header == nil {
			c.Header = make(map[string]string)
		}
		c.Header[name] = value
		return nil
	})
	flags.Func("call-timeout", "how long a call may take", func(s string) error {
		d, err := time.ParseDuration(s)
		get().Timeout = api.Duration(d)
		return err
	})
}

func setTask(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	var setting api.Setting
	when := whenFlags(flags)
	callbackFlags(flags, &setting.Callback)
	payload := flags.String("payload", "", "a JSON `value`; @file reads it, and @- reads standard input")
	raw := flags.Bool("raw", false, "the payload is bytes, and no JSON")
	ifAbsent := flags.Bool("if-absent", false, "change nothing where there is a task that waits, runs or is dead")
	return func(ctx context.Context, words []string) error {
		setting.When = *when
		if err := readPayload(*payload, *raw, &setting); err != nil {
			return err
		}
		var header []string
		if *ifAbsent {
			header = []string{"If-None-Match", "*"}
		}
		var found api.Answer
		more, err := s.ask(ctx, http.MethodPut, taskPath(words[0], words[1]), setting, &found, header...)
		if err != nil || !more {
			return err
		}
		if !found.Changed {
			fmt.Fprintf(s.out, "%s/%s stays as it is: it is %v\n", words[0], clean(words[1]), found.Was)
			return nil
		}
		fmt.Fprintf(s.out, "%s/%s is set for %s, version %d; it was %v\n", words[0], clean(words[1]), instant(found.Due), found.Version, found.Was)
		return nil
	}
}

func readPayload(text string, raw bool, into *api.Setting) error {
	bytes := []byte(text)
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		var err error
		if name == "-" {
			bytes, err = io.ReadAll(io.LimitReader(os.Stdin, engine.MaxPayload+1))
		} else {
			bytes, err = os.ReadFile(name)
		}
		if err != nil {
			return fmt.Errorf("payload: %w", err)
		}
	}
	switch {
	case len(bytes) > engine.MaxPayload:
		return misused("the payload has more than %d bytes, must have at most that", engine.MaxPayload)
	case len(bytes) == 0:
	case raw:
		into.PayloadBase64 = &bytes
	case !json.Valid(bytes):
		return misused("the payload %.50q is no JSON; with -raw it may be anything", bytes)
	default:
		into.Payload = bytes
	}
	return nil
}

func moveTask(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	when := whenFlags(flags)
	return func(ctx context.Context, words []string) error {
		if (when.Due == nil) == (when.After == nil) {
			return misused("move with -after and -due, or none of them, must have one")
		}
		var found api.Answer
		more, err := s.ask(ctx, http.MethodPost, taskPath(words[0], words[1])+"/move", when, &found)
		if err != nil || !more {
			return err
		}
		if !found.Changed {
			fmt.Fprintf(s.out, "%s/%s stays as it is: it is %v, and only what is pending can be moved\n", words[0], clean(words[1]), found.Was)
			return nil
		}
		fmt.Fprintf(s.out, "%s/%s is due at %s\n", words[0], clean(words[1]), instant(found.Due))
		return nil
	}
}

func removeTasks(s *session, _ *flag.FlagSet) func(context.Context, []string) error {
	return func(ctx context.Context, words []string) error {
		return s.each(ctx, "remove", words, "is removed")
	}
}

// each sends a batch, and prints the result for each task.
func (s *session) each(ctx context.Context, verb string, words []string, done string) error {
	var batch api.Keys
	for _, id := range words[1:] {
		batch.Keys = append(batch.Keys, timeout.Key{Topic: words[0], ID: id})
	}
	var found api.Answers
	more, err := s.ask(ctx, http.MethodPost, "/v1/tasks/"+verb, batch, &found)
	if err != nil || !more {
		return err
	}
	failed := 0
	for i, one := range found.Answers {
		switch {
		case one.Error != nil:
			failed++
			fmt.Fprintf(s.out, "%s: %s\n", clean(batch.Keys[i].String()), clean(one.Error.Detail))
		case one.Changed:
			fmt.Fprintf(s.out, "%s %s; it was %v\n", clean(batch.Keys[i].String()), done, one.Was)
		default:
			fmt.Fprintf(s.out, "%s stays as it is: it is %v\n", clean(batch.Keys[i].String()), one.Was)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d could not be done", failed, len(found.Answers))
	}
	return nil
}

func getTask(s *session, _ *flag.FlagSet) func(context.Context, []string) error {
	return func(ctx context.Context, words []string) error {
		var task api.Task
		more, err := s.ask(ctx, http.MethodGet, taskPath(words[0], words[1]), nil, &task)
		if err != nil || !more {
			return err
		}
		t := newTable(s.out, task.Topic+"/"+task.ID, task.State.String())
		t.row("due", instant(task.Due))
		t.row("until", instant(task.Until))
		t.row("version", number(task.Version))
		t.row("attempts", number(task.Attempts))
		for _, field := range [][2]string{{"error", task.Error}, {"node", task.Node}, {"callback", callbackText(task.Callback)}} {
			if field[1] != "" {
				t.row(field[0], field[1])
			}
		}
		switch {
		case task.Payload != nil:
			t.row("payload", string(task.Payload))
		case len(task.PayloadBase64) > 0:
			t.row("payload", fmt.Sprintf("%q", task.PayloadBase64))
		}
		return t.Flush()
	}
}

func callbackText(c *api.Callback) string {
	if c == nil {
		return ""
	}
	return strings.Join(strings.Fields(c.Kind+" "+c.Method+" "+c.Target), " ")
}

func listTasks(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	state := flags.String("state", "pending", "pending, running, done, dead or removed")
	limit, all := pageFlags(flags)
	return func(ctx context.Context, words []string) error { return s.list(ctx, words[0], *state, *limit, *all) }
}

func listDead(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	limit, all := pageFlags(flags)
	return func(ctx context.Context, words []string) error { return s.list(ctx, words[0], "dead", *limit, *all) }
}

func pageFlags(flags *flag.FlagSet) (limit *int, all *bool) {
	return flags.Int("limit", 100, "tasks in a page, at most 1000"), flags.Bool("all", false, "all pages")
}

func (s *session) list(ctx context.Context, topic, state string, limit int, all bool) error {
	query := url.Values{"state": {state}, "limit": {strconv.Itoa(limit)}}
	until := map[string]string{"pending": "NEXT", "running": "LEASE ENDS"}[state]
	t := newTable(io.Discard)
	if !s.asJSON {
		t = newTable(s.out, "ID", or(until, "SINCE"), "ATTEMPTS", "BYTES", "ERROR")
	}
	for {
		var page api.Tasks
		more, err := s.ask(ctx, http.MethodGet, topicPath(topic)+"/tasks?"+query.Encode(), nil, &page)
		if err != nil || !more {
			return err
		}
		for _, task := range page.Tasks {
			t.row(task.ID, instant(task.Until), number(task.Attempts), number(task.PayloadBytes), brief(task.Error, 80))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		switch {
		case page.Next == "":
			return nil
		case !all:
			fmt.Fprintln(s.out, "There are more: see -all and -limit.")
			return nil
		}
		query.Set("cursor", page.Next)
	}
}

func listExecutions(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	limit := flags.Int("limit", 100, "attempts, at most 1000")
	return func(ctx context.Context, words []string) error {
		var found api.Executions
		more, err := s.ask(ctx, http.MethodGet, taskPath(words[0], words[1])+"/executions?limit="+strconv.Itoa(*limit), nil, &found)
		if err != nil || !more {
			return err
		}
		t := newTable(s.out, "STARTED", "ATTEMPT", "AS", "TOOK", "NODE", "ERROR")
		for _, e := range found.Executions {
			t.row(instant(e.Started), number(e.Attempt), e.As.String(), time.Duration(e.Took).String(), e.Node, brief(e.Error, 80))
		}
		return t.Flush()
	}
}

func feedback(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	var told api.Feedback
	flags.StringVar(&told.Error, "error", "", "how it has failed; without it, it has succeeded")
	flags.BoolVar(&told.Permanent, "permanent", false, "there is to be no other attempt")
	flags.Func("retry-after", "when the next attempt is to be", func(text string) error {
		d, err := time.ParseDuration(text)
		told.RetryAfter = (*api.Duration)(&d)
		return err
	})
	return func(ctx context.Context, words []string) error {
		told.Token = words[0]
		var found api.Settled
		more, err := s.ask(ctx, http.MethodPost, "/v1/feedback", told, &found)
		if err != nil || !more {
			return err
		}
		if !found.Settled {
			return fmt.Errorf("too late: the lease has ended, and the task runs again, or was set, removed or settled")
		}
		fmt.Fprintln(s.out, "settled")
		return nil
	}
}
