package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	// windowCalls and windowBytes are how many scripts, and how much, are sent before their
	// answers are read.
	windowCalls = 16
	windowBytes = 4 << 20

	// shareTasks is up to how many tasks several slots share a run of a script. With more, it
	// costs more to deal the arguments out than to run it again.
	shareTasks = 128

	// redirects is how many times a script is sent elsewhere, or waits for a Cluster that is
	// being rearranged, before that is an error.
	redirects = 20
)

// invocation is one run of a script, and what came of it: an answer, or a word by which the
// slot has refused it, or an error. Only with an error that is not of the server itself it is
// unknown whether it was run.
type invocation struct {
	script *script
	keys   []any
	args   []any
	size   int // bytes of args, roughly
	room   int // how many tasks it may find besides those that it is about

	answer []any
	status string
	err    error

	tasks []int // for the caller: what it is about
	at    *place
}

// The words by which a slot refuses.
const (
	statusSealed = "sealed" // the topic has grown, or is gone
	statusGone   = "gone"   // the slot was never made, or has lost its data
	statusOpen   = "open"   // the slot should be sealed, and is not
)

func invoke(s *script, at *place, args ...any) *invocation {
	return &invocation{script: s, keys: at.keys, args: args, at: at}
}

// run runs scripts, those for one place in their order. The error is that of the first which
// failed; it only wraps ErrFull where none failed otherwise. Nothing is tried again of which it
// is not certain that it was not run.
func (e *Engine) run(ctx context.Context, calls []*invocation) error {
	if e.closed.Load() {
		return timeout.ErrClosed
	}
	todo := calls
	for attempt := 0; len(todo) > 0; attempt++ {
		groups, err := e.byServer(ctx, todo)
		if err != nil {
			return e.wrap(err)
		}
		if len(groups) == 1 {
			for client, group := range groups {
				e.send(ctx, client, group)
			}
		} else {
			var all errgroup.Group
			for client, group := range groups {
				all.Go(func() error { e.send(ctx, client, group); return nil })
			}
			_ = all.Wait()
		}
		if todo = again(todo); len(todo) == 0 || attempt == redirects {
			break
		}
		if err := e.rearranged(ctx, attempt); err != nil {
			return err
		}
	}
	return e.failure(ctx, calls)
}

// failure returns the error of run.
func (e *Engine) failure(ctx context.Context, calls []*invocation) (err error) {
	for _, c := range calls {
		if c.err == nil {
			continue
		}
		if !errors.Is(c.err, timeout.ErrFull) {
			if e.cluster != nil {
				e.cluster.ReloadState(ctx) // a server may be away, and replaced
			}
			return c.err
		}
		err = c.err
	}
	return err
}

// runOne is run for one script.
func (e *Engine) runOne(ctx context.Context, c *invocation) error {
	return e.run(ctx, []*invocation{c})
}

// again returns those that the server has refused to run for now.
func again(calls []*invocation) []*invocation {
	var todo []*invocation
	for _, c := range calls {
		if c.err != nil && elsewhere(c.err) {
			todo = append(todo, c)
		}
	}
	return todo
}

// elsewhere reports whether an error says that a script was not run since it was sent to the
// wrong server, or to one that can't run it for now.
func elsewhere(err error) bool {
	for _, code := range []string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING"} {
		if hasCode(err, code) {
			return true
		}
	}
	return false
}

// hasCode reports whether an error is one of Redis's that begins with code.
func hasCode(err error, code string) bool {
	var answer goredis.Error
	return errors.As(err, &answer) && strings.HasPrefix(answer.Error(), code+" ")
}

// rearranged waits a little, for the client to learn of a Cluster's new arrangement.
func (e *Engine) rearranged(ctx context.Context, attempt int) error {
	if e.cluster != nil {
		e.cluster.ReloadState(ctx)
	}
	return pause(ctx, attempt)
}

// pause waits the longer the more attempts there were, at most about 100 ms.
func pause(ctx context.Context, attempt int) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Millisecond << min(attempt, 7)):
		return nil
	}
}

func (e *Engine) byServer(ctx context.Context, calls []*invocation) (map[*goredis.Client][]*invocation, error) {
	if e.cluster == nil {
		return map[*goredis.Client][]*invocation{e.single: calls}, nil
	}
	groups := make(map[*goredis.Client][]*invocation)
	for _, c := range calls {
		client, err := e.cluster.MasterForKey(ctx, c.keys[0].(string))
		if err != nil {
			return nil, err
		}
		groups[client] = append(groups[client], c)
	}
	return groups, nil
}

// send runs scripts on one server, some at a time, and gives it those that it does not know.
func (e *Engine) send(ctx context.Context, client *goredis.Client, calls []*invocation) {
	for len(calls) > 0 {
		count, size := 0, 0
		for count < len(calls) && count < windowCalls && (count == 0 || size+calls[count].size <= windowBytes) {
			size += calls[count].size
			count++
		}
		window := calls[:count]
		calls = calls[count:]
		e.exec(ctx, client, window)
		if unknown := withCode(window, "NOSCRIPT"); len(unknown) > 0 {
			e.load(ctx, client, unknown)
		}
		for _, c := range withCode(window, "ASK") {
			e.ask(ctx, c)
		}
	}
}

func withCode(calls []*invocation, code string) (found []*invocation) {
	for _, c := range calls {
		if c.err != nil && hasCode(c.err, code) {
			found = append(found, c)
		}
	}
	return found
}

// exec sends scripts by their names and reads their answers.
func (e *Engine) exec(ctx context.Context, client *goredis.Client, calls []*invocation, before ...any) {
	pipe := client.Pipeline()
	if len(before) > 0 {
		pipe.Do(ctx, before...)
	}
	runs := e.runs(calls)
	sent := make([]*goredis.Cmd, len(runs))
	for i, run := range runs {
		sent[i] = pipe.Do(ctx, words(run)...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, run := range runs {
		e.take(run, sent[i])
	}
}

// runs returns which invocations are made one run of their script: slots that are on one
// server, as far as all of them together are not too much.
func (e *Engine) runs(calls []*invocation) (runs [][]*invocation) {
	tasks, size := 0, 0
	for i, c := range calls {
		if i > 0 && e.cluster == nil && c.script.slots && c.script == calls[i-1].script &&
			tasks+len(c.tasks)+c.room <= shareTasks && size+c.size <= batchBytes {
			runs[len(runs)-1] = append(runs[len(runs)-1], c)
		} else {
			runs = append(runs, calls[i:i+1:i+1])
			tasks, size = 0, 0
		}
		tasks += len(c.tasks) + c.room
		size += c.size
	}
	return runs
}

// words is the command for a run.
func words(run []*invocation) []any {
	keys, args := 0, 0
	for _, c := range run {
		keys, args = keys+len(c.keys), args+1+len(c.args)
	}
	words := make([]any, 0, 3+keys+args)
	words = append(words, "EVALSHA", run[0].script.sha, keys)
	for _, c := range run {
		words = append(words, c.keys...)
	}
	for _, c := range run {
		if len(run) > 1 {
			words = append(words, len(c.args))
		}
		words = append(words, c.args...)
	}
	return words
}

// take reads the answer of a run.
func (e *Engine) take(run []*invocation, sent *goredis.Cmd) {
	answer, err := sent.Result()
	answers, _ := answer.([]any)
	for i, c := range run {
		switch {
		case err != nil || len(run) == 1:
			c.take(answer, err)
		case i < len(answers):
			failure, _ := answers[i].(error)
			c.take(answers[i], failure)
		default:
			c.take(nil, fmt.Errorf("%d answers for %d slots", len(answers), len(run)))
		}
		c.err = e.wrap(c.err)
	}
}

func (c *invocation) take(answer any, err error) {
	c.answer, c.status, c.err = nil, "", nil
	if err != nil {
		c.err = fmt.Errorf("timeout/redis: script %s: %w", c.script.name, err)
		if hasCode(err, "OOM") || hasCode(err, "MISCONF") {
			c.err = fmt.Errorf("%w: %w", timeout.ErrFull, err)
		}
		return
	}
	switch answer := answer.(type) {
	case []any:
		c.answer = answer
	case string:
		c.status = answer
	default:
		c.err = fmt.Errorf("timeout/redis: script %s has answered with %T", c.script.name, answer)
	}
}

// load gives a server scripts that it does not know, and runs them then: they were not.
func (e *Engine) load(ctx context.Context, client *goredis.Client, calls []*invocation) {
	loaded := make(map[*script]bool)
	for _, c := range calls {
		if !loaded[c.script] {
			loaded[c.script] = true
			if err := client.ScriptLoad(ctx, c.script.source).Err(); err != nil {
				c.err = e.wrap(fmt.Errorf("timeout/redis: loading script %s: %w", c.script.name, err))
				return
			}
		}
	}
	e.exec(ctx, client, calls)
}

// ask runs a script on the server that takes over its keys just now.
func (e *Engine) ask(ctx context.Context, c *invocation) {
	words := strings.Fields(c.err.Error())
	address := words[len(words)-1]
	_ = e.cluster.ForEachMaster(ctx, func(ctx context.Context, client *goredis.Client) error {
		if client.Options().Addr != address {
			return nil
		}
		e.exec(ctx, client, []*invocation{c}, "ASKING")
		if hasCode(c.err, "NOSCRIPT") {
			if err := client.ScriptLoad(ctx, c.script.source).Err(); err == nil {
				e.exec(ctx, client, []*invocation{c}, "ASKING")
			}
		}
		return nil
	})
}

// wrap makes the client's own errors those of package timeout.
func (e *Engine) wrap(err error) error {
	if errors.Is(err, goredis.ErrClosed) {
		return timeout.ErrClosed
	}
	return err
}
