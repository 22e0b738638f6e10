package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// expiry is an Expire under way.
type expiry struct {
	engine *Engine
	ask    timeout.Ask
	batch  timeout.Batch
	open   []int // of Ask.Settle, what is not settled yet
	fenced bool
}

// Expire is timeout.Engine's. A slot where nothing is due as far as this engine knows is only
// asked every Config.PollInterval, other than one of them; so Batch.Next can be later than
// what another process has set since then.
func (e *Engine) Expire(ctx context.Context, ask timeout.Ask) (timeout.Batch, error) {
	x := &expiry{engine: e, ask: ask}
	x.batch.Settled = make([]bool, len(ask.Settle))
	for i := range ask.Settle {
		x.open = append(x.open, i)
	}
	err := e.using(ctx, ask.Topic, func(l *layout) error { return x.do(ctx, l) })
	if err != nil {
		x.giveBack(ctx)
		return timeout.Batch{}, err
	}
	slices.SortStableFunc(x.batch.Leased, func(a, b timeout.Leased) int { return a.Due.Compare(b.Due) })
	if x.fenced {
		return x.fence(ctx)
	}
	return x.batch, nil
}

func (x *expiry) do(ctx context.Context, l *layout) error {
	slots := l.asked(x.ask.Slots)
	more, err := x.migrate(ctx, l, slots)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		var visits []visit
		if x.ask.Max > 0 && !x.fenced {
			room := x.ask.Max - len(x.batch.Leased)
			if !first && (room == 0 || !l.hints.due(slots)) {
				break
			}
			visits = l.hints.visits(slots, x.engine.cfg.PollInterval, room)
		}
		if len(visits) == 0 && len(x.open) == 0 {
			break
		}
		if err := x.round(ctx, l, visits); err != nil {
			return err
		}
	}
	if next := l.hints.next(slots); next > 0 {
		x.batch.Next = time.UnixMilli(next)
	}
	if more {
		x.batch.Next = x.batch.Now // what waits in old slots comes with the next calls
	}
	if x.batch.Now.IsZero() { // no slot was asked
		x.batch.Now, err = x.engine.Now(ctx)
	}
	return err
}

// asked returns the slots of an Ask that there are.
func (l *layout) asked(slots []int) []int {
	if slots == nil {
		slots = make([]int, len(l.places))
		for i := range slots {
			slots[i] = i
		}
		return slots
	}
	slots = slices.Clone(slots)
	slices.Sort(slots)
	slots = slices.Compact(slots)
	return slices.DeleteFunc(slots, func(slot int) bool { return slot < 0 || slot >= len(l.places) })
}

// migrate moves the tasks that are to be settled, and some of the others.
func (x *expiry) migrate(ctx context.Context, l *layout, slots []int) (more bool, err error) {
	if l.old == nil {
		return false, nil
	}
	var ids []string
	for _, i := range x.open {
		if token := x.ask.Settle[i].Token; token.Part != partOf(l.Gen) {
			ids = append(ids, token.ID)
		}
	}
	if err := x.engine.bring(ctx, l, ids); err != nil {
		return false, err
	}
	if x.ask.Max == 0 || l.Topic.Paused {
		return false, nil
	}
	more, err = x.engine.draw(ctx, l, slots)
	if more && err == nil {
		l.hints.reset() // what came may be due
	}
	return more, err
}

// round settles what is open, and leases from the slots of visits.
func (x *expiry) round(ctx context.Context, l *layout, visits []visit) error {
	settle, err := x.bySlot(ctx, l)
	if err != nil {
		return err
	}
	var calls []*invocation
	visited := make(map[*invocation]visit, len(visits))
	for _, v := range visits {
		c := x.call(l.places[v.slot], v.max, nextChunk(settle, v.slot))
		visited[c] = v
		calls = append(calls, c)
	}
	for slot := range settle {
		for len(settle[slot]) > 0 {
			calls = append(calls, x.call(l.places[slot], 0, nextChunk(settle, slot)))
		}
	}
	if err := x.engine.run(ctx, calls); err != nil && !tolerable(calls) {
		return err
	}
	x.open = x.open[:0]
	var refused *invocation
	for _, c := range calls {
		v, leases := visited[c]
		if c.err != nil {
			l.hints.failed(v)
			continue
		}
		if c.status != "" {
			refused = c
			x.open = append(x.open, c.tasks...)
			continue
		}
		if err := x.take(l, c); err != nil {
			return err
		}
		if leases {
			l.hints.answered(v, integer(c.answer[0]), integer(c.answer[1]), integer(c.answer[2]))
		} else {
			l.hints.settled(c.at.slot, integer(c.answer[1]))
		}
	}
	if refused != nil {
		return x.engine.mend(ctx, l, refused)
	}
	return nil
}

// tolerable reports whether those that failed were to settle nothing, and others did not
// fail: a server of a Cluster that is away must not hold up what the others have.
func tolerable(calls []*invocation) bool {
	good := false
	for _, c := range calls {
		answered := c.answer != nil || c.status != ""
		if !answered && (c.err == nil || len(c.tasks) > 0) {
			return false
		}
		good = good || answered
	}
	return good
}

// bySlot deals what is to be settled over the slots. Tokens that can't be of this topic, as
// it is today, are not settled.
func (x *expiry) bySlot(ctx context.Context, l *layout) (map[int][]int, error) {
	bySlot := make(map[int][]int)
	for _, i := range x.open {
		token := x.ask.Settle[i].Token
		if token.Topic != x.ask.Topic {
			return nil, fmt.Errorf("%w: token of topic %q to be settled with topic %q", timeout.ErrArgument, token.Topic, x.ask.Topic)
		}
		known, err := x.engine.knows(ctx, l, token)
		if err != nil {
			return nil, err
		}
		if known {
			slot := l.slot(token.ID).slot
			bySlot[slot] = append(bySlot[slot], i)
		}
	}
	return bySlot, nil
}

// knows reports whether a token can be one of a topic, as it is today. It returns stale where
// the topic has grown since this process has read it.
func (e *Engine) knows(ctx context.Context, l *layout, token timeout.Token) (bool, error) {
	gen, ok := genOf(token)
	if !ok || gen <= l.Gen {
		return ok && gen >= l.Born, nil
	}
	now, err := e.reload(ctx, l.Topic.Name)
	if err == nil && now.Gen >= gen {
		err = errStale
	}
	return false, err
}

func nextChunk(bySlot map[int][]int, slot int) []int {
	chunk := bySlot[slot][:min(len(bySlot[slot]), batchTasks)]
	bySlot[slot] = bySlot[slot][len(chunk):]
	return chunk
}

func (x *expiry) call(at *place, lease int, settle []int) *invocation {
	node := x.ask.Node[:min(len(x.ask.Node), 255)]
	c := &invocation{script: scriptExpire, keys: at.keys, at: at, tasks: settle, room: lease, args: make([]any, 5, 5+5*len(settle))}
	for _, i := range settle {
		outcome := x.ask.Settle[i]
		key, _ := leaseKey(outcome.Token.Lease) // an empty one is that of no lease
		text := outcome.Error[:min(len(outcome.Error), timeout.MaxError)]
		c.args = append(c.args, outcome.Token.ID, key, outcomeCode(outcome), ask(time.Time{}, max(outcome.After, 0)), text)
		c.size += len(text)
	}
	c.args[0], c.args[1] = string([]byte{byte(len(node))})+node, timeout.CeilMillis(x.ask.Lease)
	c.args[2], c.args[3], c.args[4] = lease, x.ask.Term, len(settle)
	return c
}

func outcomeCode(outcome timeout.Outcome) string {
	switch {
	case outcome.As == timeout.Done:
		return "d"
	case outcome.As == timeout.Dead:
		return "x"
	case outcome.Refund:
		return "r"
	}
	return "p"
}

// take reads what a slot has answered.
func (x *expiry) take(l *layout, c *invocation) error {
	if len(c.answer) < 9 {
		return fmt.Errorf("timeout/redis: expire has answered with %d parts", len(c.answer))
	}
	now := integer(c.answer[0])
	if at := time.UnixMilli(now); at.After(x.batch.Now) {
		x.batch.Now = at
	}
	x.fenced = x.fenced || integer(c.answer[3]) == 1
	for j, good := range []byte(text(c.answer[4])) {
		x.batch.Settled[c.tasks[j]] = good == '1'
	}
	for _, id := range list(c.answer[8]) {
		x.batch.Died = append(x.batch.Died, timeout.Key{Topic: x.ask.Topic, ID: text(id)})
	}
	return x.takeLeased(l, c, now)
}

func (x *expiry) takeLeased(l *layout, c *invocation, now int64) error {
	parts := list(c.answer[7])
	if len(parts) < 4 {
		return nil
	}
	ids, scores, bodies, records := list(parts[0]), list(parts[1]), list(parts[2]), list(parts[3])
	first, late, part := integer(c.answer[5]), int(integer(c.answer[6])), partOf(l.Gen)
	for j := range ids {
		key := timeout.Key{Topic: x.ask.Topic, ID: text(ids[j])}
		leased := timeout.Leased{Again: j < late}
		leased.Topic, leased.ID = key.Topic, key.ID
		if err := fill(&leased.Task, text(bodies[j]), text(records[j]), text(scores[j])); err != nil {
			return err
		}
		leased.State, leased.Node = timeout.Running, x.ask.Node
		leased.Attempts++
		leased.Until = time.UnixMilli(now + timeout.CeilMillis(x.ask.Lease))
		leased.Token = timeout.Token{Key: key, Lease: leaseOf(first+int64(j)+1, c.at.slot), Part: part}
		x.batch.Leased = append(x.batch.Leased, leased)
	}
	return nil
}

// fence answers where a slot has said that it belongs to somebody else.
func (x *expiry) fence(ctx context.Context) (timeout.Batch, error) {
	x.giveBack(ctx)
	x.batch.Leased = nil
	return x.batch, fmt.Errorf("%w: term %d of topic %s", timeout.ErrFenced, x.ask.Term, x.ask.Topic)
}

// giveBack has what was leased wait again, with no attempt lost. Where that fails, the leases
// end by themselves.
func (x *expiry) giveBack(ctx context.Context) {
	if len(x.batch.Leased) == 0 {
		return
	}
	back := timeout.Ask{Topic: x.ask.Topic, Node: x.ask.Node}
	for _, leased := range x.batch.Leased {
		back.Settle = append(back.Settle, timeout.Outcome{Token: leased.Token, As: timeout.Pending, Refund: true})
	}
	_, _ = x.engine.Expire(ctx, back)
}

// Extend is timeout.Engine's.
func (e *Engine) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	good := make([]bool, len(tokens))
	byTopic := make(map[string][]int)
	for i, token := range tokens {
		if _, ok := leaseKey(token.Lease); ok {
			byTopic[token.Topic] = append(byTopic[token.Topic], i)
		}
	}
	for topic, which := range byTopic {
		if err := e.extend(ctx, topic, tokens, which, lease, good); err != nil {
			return nil, err
		}
	}
	return good, nil
}

func (e *Engine) extend(ctx context.Context, topic string, tokens []timeout.Token, which []int, lease time.Duration, good []bool) error {
	v := verb{
		key:   func(i int) timeout.Key { return tokens[i].Key },
		begin: func(at *place) *invocation { return invoke(scriptExtend, at, timeout.CeilMillis(lease)) },
		add: func(c *invocation, i int) {
			key, _ := leaseKey(tokens[i].Lease)
			c.args = append(c.args, tokens[i].ID, key)
		},
		take: func(_ *layout, c *invocation) error {
			for j, is := range []byte(text(c.answer[0])) {
				good[c.tasks[j]] = is == '1'
			}
			return nil
		},
	}
	err := e.using(ctx, topic, func(l *layout) error {
		var known []int
		for _, i := range which {
			is, err := e.knows(ctx, l, tokens[i])
			if err != nil {
				return err
			}
			if is {
				known = append(known, i)
			}
		}
		which = known
		return nil
	})
	if err == nil {
		err = e.eachOf(ctx, topic, which, v)
	}
	return absent(err)
}

// absent is for what is asked of a topic that is not there, and answered with nothing.
func absent(err error) error {
	if errors.Is(err, timeout.ErrNotFound) {
		return nil
	}
	return err
}
