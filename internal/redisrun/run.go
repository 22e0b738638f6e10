package redisrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// Window is the most calls sent before their answers are read. Light ones may be more, up to a weight of
	// shareWeight in all. So the server keeps few answers at a time. windowBytes is the most bytes of their
	// arguments. A larger call is sent alone.
	Window      = 16
	windowBytes = 4 << 20

	// shareWeight is the most entries of several slots in one run of a script. Beyond it, dealing the
	// arguments out costs more than another run.
	shareWeight = 128

	// shareBytes is the most bytes of arguments for several slots in one run.
	shareBytes = 1 << 20

	// redirects is the most times a refused script is sent again, to another server or after a wait
	// for a Cluster being rearranged. The next refusal is an error.
	redirects = 20
)

// Call is one run of a script and its result: an answer, or the slot's refusal in one word, or an
// error. Only an error from elsewhere than the server, such as a lost answer, leaves it unknown
// whether the script was run.
type Call struct {
	Script *Script
	Keys   []any
	Args   []any
	Size   int // bytes of Args, roughly
	Weight int // how many entries it is about, and may find; 0 if nobody knows

	Answer []any
	Status string
	Err    error
	Came   time.Time // of the answer
}

// Run runs scripts, those for one slot in their order. After it each call has an answer, a status or
// an error. A slow server holds up only its own calls, and Run returns when all have ended. The error
// is that of the first call failed for another reason than Names.Full. If there is none, it is that
// of the last failed call. Run repeats a call only if it certainly was not run.
func (r *Client) Run(ctx context.Context, calls []*Call) error {
	if r.closed.Load() {
		fail(calls, r.names.Closed)
		return r.names.Closed
	}
	r.attempt(ctx, calls, 0)
	return r.failure(ctx, calls)
}

// attempt runs scripts, and repeats those sent to the wrong server. number counts the attempts
// before it.
func (r *Client) attempt(ctx context.Context, calls []*Call, number int) {
	groups := r.byServer(ctx, calls)
	if len(groups) == 1 {
		for client, group := range groups {
			r.attemptOn(ctx, client, group, number)
		}
		return
	}
	var all sync.WaitGroup
	for client, group := range groups {
		all.Go(func() { r.attemptOn(ctx, client, group, number) })
	}
	all.Wait()
}

// attemptOn is attempt for one server.
func (r *Client) attemptOn(ctx context.Context, client *goredis.Client, calls []*Call, number int) {
	r.send(ctx, client, calls)
	todo := withCode(calls, elsewhere...)
	if len(todo) == 0 || number == redirects {
		return
	}
	if err := r.rearranged(ctx, number); err != nil {
		for _, c := range todo {
			c.Err = fmt.Errorf("%w: %w", err, c.Err)
		}
		return
	}
	r.attempt(ctx, todo, number+1)
}

func fail(calls []*Call, err error) {
	for _, c := range calls {
		c.Answer, c.Status, c.Err = nil, "", err
	}
}

// failure returns the error of Run.
func (r *Client) failure(ctx context.Context, calls []*Call) (err error) {
	for _, c := range calls {
		if c.Err == nil {
			continue
		}
		if !errors.Is(c.Err, r.names.Full) {
			if r.cluster != nil {
				r.cluster.ReloadState(ctx) // a server may be away, and replaced
			}
			return c.Err
		}
		err = c.Err
	}
	return err
}

// RunOne is Run for one script.
func (r *Client) RunOne(ctx context.Context, c *Call) error {
	return r.Run(ctx, []*Call{c})
}

// elsewhere are the codes of refusals by the wrong server, or by one that can't run scripts for now. The script
// was not run.
var elsewhere = []string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING"}

// hasCode reports whether an error is a reply of Redis beginning with one of some codes.
func hasCode(err error, codes ...string) bool {
	return slices.ContainsFunc(codes, func(code string) bool { return goredis.HasErrorPrefix(err, code+" ") })
}

// withCode returns the calls refused with one of some codes.
func withCode(calls []*Call, codes ...string) (found []*Call) {
	for _, c := range calls {
		if hasCode(c.Err, codes...) {
			found = append(found, c)
		}
	}
	return found
}

// rearranged waits a little, for the client to learn of a Cluster's new arrangement.
func (r *Client) rearranged(ctx context.Context, attempt int) error {
	if r.cluster != nil {
		r.cluster.ReloadState(ctx)
	}
	return Pause(ctx, attempt)
}

// Pause waits the longer the more attempts there were, at most about 100 ms.
func Pause(ctx context.Context, attempt int) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Millisecond << min(attempt, 7)):
		return nil
	}
}

// byServer deals calls out to their servers. A call without a known server fails.
func (r *Client) byServer(ctx context.Context, calls []*Call) map[*goredis.Client][]*Call {
	if r.cluster == nil {
		return map[*goredis.Client][]*Call{r.single: calls}
	}
	groups := make(map[*goredis.Client][]*Call)
	for _, c := range calls {
		client, err := r.cluster.MasterForKey(ctx, c.Keys[0].(string))
		if err != nil {
			fail([]*Call{c}, r.Wrap(err))
			continue
		}
		groups[client] = append(groups[client], c)
	}
	return groups
}

// send runs scripts on one server, a window at a time: first by their names, and those unknown to it by their
// text. If the server does not answer in time, all calls left fail at once.
func (r *Client) send(ctx context.Context, client *goredis.Client, calls []*Call) {
	if err := r.silent(ctx, client); err != nil {
		fail(calls, err)
		return
	}
	for len(calls) > 0 {
		window := window(calls)
		calls = calls[len(window):]
		r.exec(ctx, client, window, byName)
		if unknown := withCode(window, "NOSCRIPT"); len(unknown) > 0 {
			r.exec(ctx, client, unknown, byText) // they were not run
		}
		if i := slices.IndexFunc(window, func(c *Call) bool { return isSilence(c.Err) }); i >= 0 {
			r.silence.suspect(client, window[i].Err)
			fail(calls, window[i].Err) // they would wait for it as long
			return
		}
		if r.cluster != nil {
			for _, c := range withCode(window, "ASK") {
				r.ask(ctx, c)
			}
		}
	}
}

// window returns the first calls, to be sent together: at least one.
func window(calls []*Call) []*Call {
	weight, size := 0, 0
	for i, c := range calls {
		weight, size = weight+c.weight(), size+c.Size
		if i >= Window && weight > shareWeight || i > 0 && size > windowBytes {
			return calls[:i]
		}
	}
	return calls
}

// weight is the Weight, or as much as Window of these calls may have.
func (c *Call) weight() int { return cmp.Or(c.Weight, shareWeight/Window) }

// The commands for scripts. The server keeps the text of a script for its name. One that took the place of the other
// does not have it, and behind one address each connection may lead to another server: so a script is run by the command
// that has its text.
const (
	byName = "EVALSHA"
	byText = "EVAL"
)

// exec sends scripts and reads their answers.
func (r *Client) exec(ctx context.Context, client *goredis.Client, calls []*Call, command string, before ...any) {
	pipe := client.Pipeline()
	if len(before) > 0 {
		pipe.Do(ctx, before...)
	}
	runs := r.runs(calls)
	sent := make([]*goredis.Cmd, len(runs))
	for i, run := range runs {
		sent[i] = pipe.Do(ctx, words(command, run)...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, run := range runs {
		r.take(run, sent[i])
	}
}

// runs groups calls into runs of their script. Neighbours of one slot script share a run up to
// shareWeight and shareBytes. On a Cluster each call is a run of its own.
func (r *Client) runs(calls []*Call) (runs [][]*Call) {
	weight, size := 0, 0
	for i, c := range calls {
		if i > 0 && r.cluster == nil && c.Script.slots && c.Script == calls[i-1].Script &&
			weight+c.weight() <= shareWeight && size+c.Size <= shareBytes {
			runs[len(runs)-1] = append(runs[len(runs)-1], c)
		} else {
			runs = append(runs, calls[i:i+1:i+1])
			weight, size = 0, 0
		}
		weight += c.weight()
		size += c.Size
	}
	return runs
}

// words is the command for a run.
func words(command string, run []*Call) []any {
	script := run[0].Script.sha
	if command == byText {
		script = run[0].Script.source
	}
	keys, args := 0, 0
	for _, c := range run {
		keys, args = keys+len(c.Keys), args+1+len(c.Args)
	}
	words := make([]any, 0, 3+keys+args)
	words = append(words, command, script, keys)
	for _, c := range run {
		words = append(words, c.Keys...)
	}
	for _, c := range run {
		if len(run) > 1 {
			words = append(words, len(c.Args))
		}
		words = append(words, c.Args...)
	}
	return words
}

// take reads the answer of a run.
func (r *Client) take(run []*Call, sent *goredis.Cmd) {
	answer, err := sent.Result()
	answers, _ := answer.([]any)
	came := time.Now()
	for i, c := range run {
		c.Came = came
		switch {
		case err != nil || len(run) == 1:
			c.take(answer, err, r.names)
		case i < len(answers):
			failure, _ := answers[i].(error)
			c.take(answers[i], failure, r.names)
		default:
			c.take(nil, fmt.Errorf("%d answers for %d slots", len(answers), len(run)), r.names)
		}
		c.Err = r.Wrap(c.Err)
	}
}

// said is the error of a script.
func (n Names) said(script string, err error) error {
	if hasCode(err, "OOM", "MISCONF") {
		return fmt.Errorf("%w: %w", n.Full, err)
	}
	return fmt.Errorf("%s: script %s: %w", n.Package, script, err)
}

func (c *Call) take(answer any, err error, names Names) {
	c.Answer, c.Status, c.Err = nil, "", nil
	if err != nil {
		c.Err = names.said(c.Script.name, err)
		return
	}
	switch answer := answer.(type) {
	case []any:
		c.Answer = answer
	case string:
		c.Status = answer
	default:
		c.Err = fmt.Errorf("%s: script %s has answered with %T", names.Package, c.Script.name, answer)
	}
}

// ask runs a script on the server taking over its keys just now, named in the ASK reply.
func (r *Client) ask(ctx context.Context, c *Call) {
	address, _ := goredis.IsAskError(c.Err)
	_ = r.cluster.ForEachMaster(ctx, func(ctx context.Context, client *goredis.Client) error {
		if client.Options().Addr != address {
			return nil
		}
		if err := r.silent(ctx, client); err != nil {
			fail([]*Call{c}, err)
			return nil
		}
		r.exec(ctx, client, []*Call{c}, byName, "ASKING")
		if hasCode(c.Err, "NOSCRIPT") {
			r.exec(ctx, client, []*Call{c}, byText, "ASKING")
		}
		r.silence.suspect(client, c.Err)
		return nil
	})
}

// Wrap makes the client's own errors those of the package.
func (r *Client) Wrap(err error) error {
	if errors.Is(err, goredis.ErrClosed) {
		return r.names.Closed
	}
	return err
}
