package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// failedRest is the longest pause before a partition that has failed is asked again.
const failedRest = time.Second

// leaseCall is a Lease under way.
type leaseCall struct {
	engine *Engine
	ask    engine.Ask
	batch  engine.Batch
	open   []int // of Ask.Settle, what is not settled yet
	good   bool  // a partition has answered

	failure error // of a partition
	broken  error // of an unreadable task
}

// Lease is engine.Engine's. It asks a partition with nothing due, as far as this engine knows, only
// every Config.PollInterval, but for one of them. So Batch.Next can be later than a task of another
// process. If some partitions fail, the batch is that of the others, and the error wraps ErrPartial.
func (e *Engine) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	x := &leaseCall{engine: e, ask: ask}
	x.batch.Settled = make([]bool, len(ask.Settle))
	for i := range ask.Settle {
		x.open = append(x.open, i)
	}
	err := e.using(ctx, ask.Topic, func(l *layout) error { return x.do(ctx, l) })
	if err = cmp.Or(err, x.failure); err == nil && len(x.batch.Leased) == 0 {
		err = x.broken
	}
	switch {
	case err == nil:
	case !x.good || errors.Is(err, engine.ErrNotFound):
		return engine.Batch{}, err
	default:
		err = fmt.Errorf("%w: %w", engine.ErrPartial, err)
	}
	x.batch.Leased = engine.Lasting(x.batch.Leased)
	slices.SortStableFunc(x.batch.Leased, func(a, b engine.Leased) int { return a.Due.Compare(b.Due) })
	return x.batch, err
}

func (x *leaseCall) do(ctx context.Context, l *layout) error {
	slots := x.ask.Slots
	if len(slots) > 0 && slices.Max(slots) >= l.Topic.Slots {
		switch now, err := x.engine.reload(ctx, l.Topic.Name); {
		case err != nil:
			return err
		case now != l: // it has grown
			return errStale
		}
	}
	if slots != nil {
		slots = l.Topic.Asked(slots)
	}
	parts := x.engine.partsOn(l, slots, x.ask.Part)
	for first := true; first || !isOver(ctx); first = false {
		var visits []visit
		if room := x.ask.Max - len(x.batch.Leased); room > 0 {
			if !first && (x.ask.OverdueBy > 0 || !l.due.any(parts)) {
				break
			}
			poll := x.engine.cfg.PollInterval
			if x.ask.OverdueBy > 0 { // it is asked rarely, about partitions with nothing due in the cache
				poll = -1
			}
			visits = l.due.visits(parts, poll, room)
		}
		if len(visits) == 0 && len(x.open) == 0 {
			break
		}
		if err := x.round(ctx, l, visits); err != nil {
			return err
		}
	}
	if x.ask.Max > 0 {
		x.failure = cmp.Or(x.failure, l.due.failure(parts))
	}
	if !x.good && x.failure == nil { // no partition was asked
		now, err := x.engine.Now(ctx)
		if err != nil {
			return err
		}
		x.batch.Now, x.good = now, true
	}
	if next := l.due.next(parts); next > 0 {
		x.batch.Next = time.UnixMilli(next)
	}
	if soon := x.batch.Now.Add(failedRest); x.failure != nil && (x.batch.Next.IsZero() || soon.Before(x.batch.Next)) {
		x.batch.Next = soon
	}
	return nil
}

// round settles what is open, and leases from the partitions of visits.
func (x *leaseCall) round(ctx context.Context, l *layout, visits []visit) error {
	settle, err := x.byPart(ctx, l)
	if err != nil {
		return err
	}
	var calls []*invocation
	wait := x.engine.redis.Wait(ctx)
	for i := range visits {
		v := &visits[i]
		c := x.call(l, v.part, v.max, x.nextChunk(settle, v.part))
		c.visit = v
		if wait > 0 && v.clock > 0 { // and the windows are sent one after the other
			c.Args[5] = v.clock + wait.Milliseconds()*int64(1+i/redisrun.Window)
		}
		calls = append(calls, c)
	}
	for part := range settle {
		for len(settle[part]) > 0 {
			calls = append(calls, x.call(l, part, 0, x.nextChunk(settle, part)))
		}
	}
	_ = x.engine.run(ctx, calls) // each call has an error of its own
	if refused := x.hear(ctx, l, calls); refused != nil {
		return x.engine.mend(ctx, l, refused)
	}
	return nil
}

// hear takes answers. It returns a refused call, if there is one. A partition without an answer has failed, unless
// the caller gave up within failedRest.
func (x *leaseCall) hear(ctx context.Context, l *layout, calls []*invocation) (refused *invocation) {
	x.open = x.open[:0]
	again := min(cmp.Or(max(x.engine.cfg.PollInterval, 0), defaultPoll), failedRest)
	for _, c := range calls {
		if c.Err == nil && c.Status == "" && len(c.Answer) < leaseParts {
			c.Err = fmt.Errorf("timeout/redis: lease has answered with %d parts", len(c.Answer))
		}
		switch {
		case c.Err != nil:
			err := fmt.Errorf("server %s: %w", x.engine.redis.Server(c.at.keys[0].(string)), c.Err)
			x.failure = cmp.Or(x.failure, err)
			if c.visit != nil && (!isOver(ctx) || time.Since(c.visit.asked) >= failedRest) {
				l.due.failed(*c.visit, err, again)
			}
		case c.Status != "":
			refused = c
			x.open = append(x.open, c.tasks...)
		default:
			x.good = true
			x.take(l, c)
			if c.visit != nil {
				l.due.answered(*c.visit, integer(c.Answer[0]), integer(c.Answer[1]), integer(c.Answer[2]), c.Came)
			} else if next := integer(c.Answer[1]); next > 0 {
				l.due.set(c.at.part, next)
			}
		}
	}
	return refused
}

// isOver reports whether a context has ended. A connection can notice its deadline just before the context does.
func isOver(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(deadline)
}

// byPart deals the outcomes over the partitions. Tokens that can't be of this topic, as
// it is today, are not settled.
func (x *leaseCall) byPart(ctx context.Context, l *layout) (map[int][]int, error) {
	byPart := make(map[int][]int)
	for _, i := range x.open {
		token := x.ask.Settle[i].Token
		if token.Topic != x.ask.Topic {
			return nil, fmt.Errorf("%w: token of topic %q to be settled with topic %q", engine.ErrArgument, token.Topic, x.ask.Topic)
		}
		known, err := x.engine.knows(ctx, l, token)
		if err != nil {
			return nil, err
		}
		if known {
			part := l.partition(token.ID).part
			byPart[part] = append(byPart[part], i)
		}
	}
	return byPart, nil
}

// knows reports whether a token can be one of a topic, as it is today. It returns stale if the
// topic was made anew, or migrated, since this process has read it.
func (e *Engine) knows(ctx context.Context, l *layout, token engine.Token) (bool, error) {
	gen, ok := genOf(token)
	if !ok || gen <= l.Gen {
		return ok && gen >= l.FirstGen, nil
	}
	now, err := e.reload(ctx, l.Topic.Name)
	if err == nil && now.Gen >= gen {
		err = errStale
	}
	return false, err
}

func (x *leaseCall) nextChunk(byPart map[int][]int, part int) []int {
	most := batchTasks
	if x.engine.Logs() {
		most = loggedTasks
	}
	chunk := byPart[part][:min(len(byPart[part]), most)]
	byPart[part] = byPart[part][len(chunk):]
	return chunk
}

func (x *leaseCall) call(l *layout, part, lease int, settle []int) *invocation {
	node := x.ask.Node[:min(len(x.ask.Node), 255)]
	c := invoke(scriptLease, l.partitions[part], make([]any, 6, 6+5*len(settle))...)
	c.tasks, c.room = settle, lease
	for _, i := range settle {
		outcome := x.ask.Settle[i]
		key, _ := leaseKey(outcome.Token.Lease) // no lease has an empty one
		text := strings.ToValidUTF8(outcome.Error, "\ufffd")
		text = text[:min(len(text), engine.MaxError)]
		c.Args = append(c.Args, outcome.Token.ID, key, outcomeCode(outcome), ask(outcome.Due, max(outcome.After, 0)), text)
		c.Size += len(text)
	}
	if x.engine.Logs() {
		c.Args = append(c.Args, x.engine.cfg.Executions, l.retainLog())
		for _, i := range settle {
			c.Args = append(c.Args, told(x.ask.Settle[i]))
		}
	}
	c.Args[0], c.Args[1] = string([]byte{byte(len(node))})+node, engine.CeilMillis(x.ask.Lease)
	c.Args[2], c.Args[3], c.Args[4], c.Args[5] = lease, len(settle), engine.CeilMillis(x.ask.OverdueBy), 0
	return c
}

func outcomeCode(outcome engine.Outcome) string {
	switch {
	case outcome.As == engine.Done:
		return "d"
	case outcome.As == engine.Dead && outcome.Release:
		return "y"
	case outcome.As == engine.Dead:
		return "x"
	case outcome.NewRun && outcome.Release:
		return "g"
	case outcome.NewRun && outcome.Error != "":
		return "f"
	case outcome.NewRun:
		return "a"
	case outcome.Release:
		return "r"
	}
	return "p"
}

// leaseParts is how many there are of an answer.
const leaseParts = 8

// take reads what a partition has answered.
func (x *leaseCall) take(l *layout, c *invocation) {
	now := integer(c.Answer[0])
	if at := time.UnixMilli(now); at.After(x.batch.Now) {
		x.batch.Now = at
	}
	for j, good := range []byte(text(c.Answer[3])) {
		x.batch.Settled[c.tasks[j]] = good == '1'
	}
	if lost := list(c.Answer[7]); len(lost) > 0 {
		x.broken = cmp.Or(x.broken, fmt.Errorf("timeout/redis: %d tasks of topic %s have lost their bodies, one is %v", len(lost), x.ask.Topic, lost[0]))
		x.engine.cfg.Logger.Warn("timeout/redis: tasks are lost, since their bodies are", "topic", x.ask.Topic, "count", len(lost), "tasks", lost[:min(len(lost), 10)])
	}
	x.takeLeased(l, c, now)
}

func (x *leaseCall) takeLeased(l *layout, c *invocation, now int64) {
	parts := list(c.Answer[6])
	if len(parts) < 4 {
		return
	}
	ids, scores, bodies, records := list(parts[0]), list(parts[1]), list(parts[2]), list(parts[3])
	first, late, part := integer(c.Answer[4]), int(integer(c.Answer[5])), partOf(l.Gen)
	for j := range ids {
		key := engine.Key{Topic: x.ask.Topic, ID: text(ids[j])}
		leased := engine.Leased{Again: j < late}
		leased.Topic, leased.ID = key.Topic, key.ID
		calls, failures, err := fill(&leased.Task, text(bodies[j]), text(records[j]), text(scores[j]))
		if err != nil {
			x.broken = cmp.Or(x.broken, err)
			continue
		}
		if leased.Again { // as expired of lease.lua
			leased.Error = engine.LeaseEnded(leased.Node, leased.Attempts)
			if leased.Attempts == 0 {
				leased.Error = "timeout: the record of its attempts is lost"
			}
		}
		leased.State, leased.Node = engine.Running, x.ask.Node
		leased.Attempts++
		leased.Count(calls, failures)
		leased.Until = time.UnixMilli(now + engine.CeilMillis(x.ask.Lease))
		leased.Token = engine.Token{Key: key, Lease: leaseOf(first+int64(j)+1, c.at.part), Part: part}
		x.batch.Leased = append(x.batch.Leased, leased)
	}
}
