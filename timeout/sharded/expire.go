package sharded

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	// lookAgain is how soon there is something to look for where a shard did not answer.
	lookAgain = time.Second

	// maxOwed is how many outcomes of a topic are kept for a shard. There are no more than
	// this process has leased.
	maxOwed = 100_000
)

// Expire is timeout.Engine's. The shards of the slots are asked at the same time, each for its
// share of Max, and again where others had less. What a shard can't be told, while others
// answer, is told with the next call in which it can; until then it counts as settled.
func (e *core) Expire(ctx context.Context, ask timeout.Ask) (timeout.Batch, error) {
	if err := e.enter(ctx); err != nil {
		return timeout.Batch{}, err
	}
	if ask.Topic == Reserved {
		return timeout.Batch{}, noTopic(ask.Topic)
	}
	x := e.newExpiry(ask)
	for x.plan() {
		x.round(ctx)
	}
	return x.end(ctx)
}

// expiry is a call of Expire.
type expiry struct {
	*core
	ask   timeout.Ask
	parts []part // by place
	batch timeout.Batch
	turn  int // whose share is the largest

	fences   bool // each of the slots' shards is asked for one task at least: it has to know the term
	leased   int
	rounds   int
	answered bool
	fence    error
}

// part is what a shard has to do with a call.
type part struct {
	settle []timeout.Outcome // to be told in the next round: what was owed, then those of the call
	owed   int
	index  []int // of the others, in Ask.Settle
	open   bool  // may have something to lease
	asked  bool  // in this round
	max    int   // for this round
	looked bool  // was asked for what is due
	begun  time.Time

	batch  timeout.Batch // the last one
	leased []timeout.Leased
	err    error
}

func (e *core) newExpiry(ask timeout.Ask) *expiry {
	x := &expiry{core: e, ask: ask, parts: make([]part, len(e.shards))}
	x.batch.Settled = make([]bool, len(ask.Settle))
	e.mu.Lock()
	of := e.slots[ask.Topic]
	for place := range x.parts {
		p := &x.parts[place]
		p.settle = e.owed[place][ask.Topic]
		p.owed = len(p.settle)
		delete(e.owed[place], ask.Topic)
	}
	e.mu.Unlock()
	for i, outcome := range ask.Settle {
		p := &x.parts[Place(outcome.Token.Key, len(e.shards))]
		p.settle = append(p.settle, outcome)
		p.index = append(p.index, i)
	}
	if ask.Max > 0 {
		x.turn = int(e.turn.Add(1)) % len(e.shards)
		for place, in := range places(ask.Topic, ask.Slots, of, len(e.shards)) {
			x.parts[place].open = in
		}
		x.fences = ask.Max < len(e.shards) && e.fenceIsOld(ask)
	}
	return x
}

// plan says what each shard is asked in the next round, and reports whether any is.
func (x *expiry) plan() bool {
	x.rounds++
	left, open, asked := x.ask.Max-x.leased, 0, 0
	for i := range x.parts {
		p := &x.parts[i]
		p.max, p.asked = 0, p.err == nil && len(p.settle) > 0
		p.open = p.open && x.fence == nil
		if p.open {
			open++
		}
	}
	for n := range x.parts {
		p := &x.parts[(x.turn+n)%len(x.parts)]
		if fences := x.fences && x.rounds == 1; p.open && (left > 0 || fences) {
			p.max = max(1, (left+open-1)/open)
			p.asked, p.looked = true, true
			left, open = max(left-p.max, 0), open-1
		}
		if p.asked {
			asked++
		}
	}
	if asked == 0 && x.rounds == 1 { // what time it is, and whether there is such a topic
		x.parts[x.nearest()].asked = true
		return true
	}
	return asked > 0
}

// nearest is the first shard that is not away.
func (x *expiry) nearest() int {
	for place, s := range x.shards {
		s.mu.Lock()
		away := s.away
		s.mu.Unlock()
		if away == nil {
			return place
		}
	}
	return 0
}

// round asks the shards.
func (x *expiry) round(ctx context.Context) {
	x.together(func(place int) bool { return x.parts[place].asked }, func(s *shard) error {
		p := &x.parts[s.place]
		ask := x.ask
		ask.Settle, ask.Max = p.settle, p.max
		p.begun = time.Now()
		p.err = x.call(ctx, s, func(ctx context.Context, engine timeout.Engine) (err error) {
			p.batch, err = engine.Expire(ctx, ask)
			if errors.Is(err, timeout.ErrNotFound) && s.place > 0 && x.heal(ctx, engine, ask.Topic) {
				p.batch, err = engine.Expire(ctx, ask)
			}
			return err
		})
		return nil
	})
	for place := range x.parts {
		if p := &x.parts[place]; p.asked {
			x.take(p)
		}
	}
}

// take takes what a shard has answered.
func (x *expiry) take(p *part) {
	fenced := errors.Is(p.err, timeout.ErrFenced)
	if p.err != nil && !fenced {
		p.open = false
		if !errors.Is(p.err, timeout.ErrNotFound) {
			return
		}
		p.settle, p.owed, p.index = nil, 0, nil // nothing of a topic that is gone
		return
	}
	x.answered = true
	if x.batch.Now.Before(p.batch.Now) {
		x.batch.Now = p.batch.Now
	}
	for n, i := range p.index {
		if n += p.owed; n < len(p.batch.Settled) {
			x.batch.Settled[i] = p.batch.Settled[n]
		}
	}
	p.settle, p.owed, p.index = nil, 0, nil
	if fenced {
		x.fence, p.open = p.err, false
		return
	}
	x.leased += len(p.batch.Leased)
	p.leased = append(p.leased, p.batch.Leased...)
	x.batch.Died = append(x.batch.Died, p.batch.Died...)
	more := !p.batch.Next.IsZero() && !p.batch.Next.After(p.batch.Now)
	p.open = p.open && more && len(p.batch.Leased) > 0
}

// end puts the answer together.
func (x *expiry) end(ctx context.Context) (timeout.Batch, error) {
	if !x.answered {
		x.keepOwed(func(p *part) []timeout.Outcome { return p.settle[:p.owed] })
		return timeout.Batch{}, x.failure()
	}
	for i := range x.parts {
		for _, i := range x.parts[i].index {
			x.batch.Settled[i] = true
		}
	}
	x.keepOwed(func(p *part) []timeout.Outcome { return p.settle })
	if x.fence != nil {
		x.giveBack(ctx, 0)
		return x.batch, x.fence
	}
	if x.fences && !slices.ContainsFunc(x.parts, func(p part) bool { return p.err != nil }) {
		x.raised(x.ask)
	}
	x.giveBack(ctx, x.ask.Max)
	for end, i := time.Now(), 0; i < len(x.parts); i++ {
		x.next(&x.parts[i], end)
	}
	return x.batch, nil
}

// failure is the error of a call that no shard has answered.
func (x *expiry) failure() error {
	errs := make([]error, 0, len(x.parts))
	for i := range x.parts {
		if p := &x.parts[i]; p.err != nil {
			errs = append(errs, p.err)
		}
	}
	return allBut(errs, timeout.ErrNotFound)
}

// keepOwed keeps what shards were not told.
func (x *expiry) keepOwed(of func(*part) []timeout.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for place := range x.parts {
		if owed := of(&x.parts[place]); len(owed) > 0 {
			all := append(x.owed[place][x.ask.Topic], owed...)
			x.owed[place][x.ask.Topic] = all[max(0, len(all)-maxOwed):]
		}
	}
}

// giveBack has the batch be the earliest tasks that were leased, at most so many, and gives the
// others back. Where that fails their leases end.
func (x *expiry) giveBack(ctx context.Context, most int) {
	var leased []timeout.Leased
	for i := range x.parts {
		leased = append(leased, x.parts[i].leased...)
	}
	slices.SortStableFunc(leased, func(a, b timeout.Leased) int { return a.Due.Compare(b.Due) })
	if len(leased) <= most {
		x.batch.Leased = leased
		return
	}
	x.batch.Leased = leased[:most:most]
	back := make([][]timeout.Outcome, len(x.parts))
	for _, one := range leased[most:] {
		place := Place(one.Key(), len(x.parts))
		back[place] = append(back[place], timeout.Outcome{Token: one.Token, As: timeout.Pending, Refund: true})
		x.parts[place].batch.Next = x.parts[place].batch.Now
	}
	x.together(func(place int) bool { return len(back[place]) > 0 }, func(s *shard) error {
		return x.call(context.WithoutCancel(ctx), s, func(ctx context.Context, engine timeout.Engine) error {
			_, err := engine.Expire(ctx, timeout.Ask{Topic: x.ask.Topic, Node: x.ask.Node, Settle: back[s.place]})
			return err
		})
	})
}

// next has the batch tell when there is something due in a shard. That is said by the clock of
// the batch, so what counts is for how long there is nothing: from before the shard was asked.
func (x *expiry) next(p *part, end time.Time) {
	at := time.Time{}
	switch {
	case p.err != nil && !errors.Is(p.err, timeout.ErrNotFound):
		at = x.batch.Now.Add(lookAgain)
	case p.open && !p.looked:
		at = x.batch.Now
	case !p.batch.Next.IsZero():
		at = x.batch.Now.Add(p.batch.Next.Sub(p.batch.Now) - end.Sub(p.begun) - time.Millisecond)
	}
	if !at.IsZero() && (x.batch.Next.IsZero() || at.Before(x.batch.Next)) {
		x.batch.Next = at
	}
}

// fenceEvery is how often, with a Max that is less than there are shards, all of them are asked
// nevertheless, so that they know the term.
const fenceEvery = 5 * time.Second

// raisedFence is the last ask that all shards of its slots have had.
type raisedFence struct {
	term  int64
	slots []int
	at    time.Time
}

func (e *core) fenceIsOld(ask timeout.Ask) bool {
	if ask.Term == 0 {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.fenced[ask.Topic]
	return last.term != ask.Term || time.Since(last.at) > fenceEvery || !slices.Equal(last.slots, ask.Slots)
}

func (e *core) raised(ask timeout.Ask) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fenced[ask.Topic] = raisedFence{ask.Term, slices.Clone(ask.Slots), time.Now()}
}
