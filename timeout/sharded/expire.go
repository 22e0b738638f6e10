package sharded

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// lookAgain is the wait for the next look after a shard did not answer.
const lookAgain = time.Second

// Expire implements engine.Engine. It asks the shards of the slots at the same time, each for its
// share of Max. If some had less, it asks the others again. If a shard is silent while others
// answer, its guard tells it the outcomes later. Until then they count as settled.
func (e *core) Expire(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if err := e.enter(ctx); err != nil {
		return engine.Batch{}, err
	}
	if ask.Topic == engine.Reserved {
		return engine.Batch{}, noTopic(ask.Topic)
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
	ask   engine.Ask
	parts []part // by place
	batch engine.Batch
	turn  int // the place asked first, with the largest share

	fences   bool // ask each shard of the slots for at least one task, to tell it the term
	leased   int
	rounds   int
	answered bool
	fence    error
}

// part is the part of a shard in a call.
type part struct {
	settle []engine.Outcome // for the next round
	index  []int            // of these outcomes, in Ask.Settle
	open   bool             // may have something to lease
	asked  bool             // in this round
	max    int              // for this round
	looked bool             // was asked for due tasks
	begun  time.Time

	batch  engine.Batch // the last one
	leased []engine.Leased
	err    error
}

func (e *core) newExpiry(ask engine.Ask) *expiry {
	x := &expiry{core: e, ask: ask, parts: make([]part, len(e.shards))}
	x.batch.Settled = make([]bool, len(ask.Settle))
	e.mu.Lock()
	of := e.slots[ask.Topic]
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

// plan sets the questions of the next round, and reports whether there are any.
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
	if asked == 0 && x.rounds == 1 { // for the time, and whether the topic exists
		x.parts[x.nearest()].asked = true
		return true
	}
	return asked > 0
}

// nearest is the place of the first shard not away, or 0.
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
		p.err = x.call(ctx, s, func(ctx context.Context, e engine.Engine) (err error) {
			p.batch, err = e.Expire(ctx, ask)
			if errors.Is(err, engine.ErrNotFound) && s.place > 0 && x.heal(ctx, s, e, ask.Topic) {
				p.batch, err = e.Expire(ctx, ask)
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

// take takes the answer of a shard.
func (x *expiry) take(p *part) {
	fenced := errors.Is(p.err, engine.ErrFenced)
	if p.err != nil && !fenced {
		p.open = false
		if !errors.Is(p.err, engine.ErrNotFound) {
			return
		}
		p.settle, p.index = nil, nil // the topic is gone
		return
	}
	x.answered = true
	if x.batch.Now.Before(p.batch.Now) {
		x.batch.Now = p.batch.Now
	}
	for n, i := range p.index {
		if n < len(p.batch.Settled) {
			x.batch.Settled[i] = p.batch.Settled[n]
		}
	}
	p.settle, p.index = nil, nil
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
func (x *expiry) end(ctx context.Context) (engine.Batch, error) {
	if !x.answered {
		return engine.Batch{}, x.failure()
	}
	for place := range x.parts {
		p := &x.parts[place]
		for _, i := range p.index {
			x.batch.Settled[i] = true
		}
		x.owe(place, x.ask.Topic, p.settle)
	}
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

// failure is the error of a call if no shard has answered.
func (x *expiry) failure() error {
	errs := make([]error, 0, len(x.parts))
	for i := range x.parts {
		if p := &x.parts[i]; p.err != nil {
			errs = append(errs, p.err)
		}
	}
	return allBut(errs, engine.ErrNotFound)
}

// giveBack puts the earliest leased tasks into the batch, at most most of them. It gives the
// others back.
func (x *expiry) giveBack(ctx context.Context, most int) {
	var leased []engine.Leased
	for i := range x.parts {
		leased = append(leased, x.parts[i].leased...)
	}
	leased = engine.Lasting(leased)
	slices.SortStableFunc(leased, func(a, b engine.Leased) int { return a.Due.Compare(b.Due) })
	if len(leased) <= most {
		x.batch.Leased = leased
		return
	}
	x.batch.Leased = leased[:most:most]
	back := make([][]engine.Outcome, len(x.parts))
	for _, one := range leased[most:] {
		place := Place(one.Key(), len(x.parts))
		back[place] = append(back[place], engine.Outcome{Token: one.Token, As: engine.Pending, Refund: true})
		x.parts[place].batch.Next = x.parts[place].batch.Now
	}
	x.together(func(place int) bool { return len(back[place]) > 0 }, func(s *shard) error {
		x.tell(context.WithoutCancel(ctx), s, x.ask.Topic, back[s.place])
		return nil
	})
}

// next makes the batch tell the next due time of a shard, by the clock of the batch. So it counts
// the time until then, beginning before the shard was asked.
func (x *expiry) next(p *part, end time.Time) {
	at := time.Time{}
	switch {
	case p.err != nil && !errors.Is(p.err, engine.ErrNotFound):
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

// fenceEvery is the interval of telling all shards the term if Max is less than the number of
// shards.
const fenceEvery = 5 * time.Second

// raisedFence is the last ask to reach all shards of its slots.
type raisedFence struct {
	term  int64
	slots []int
	at    time.Time
}

func (e *core) fenceIsOld(ask engine.Ask) bool {
	if ask.Term == 0 {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.fenced[ask.Topic]
	return last.term != ask.Term || time.Since(last.at) > fenceEvery || !slices.Equal(last.slots, ask.Slots)
}

func (e *core) raised(ask engine.Ask) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fenced[ask.Topic] = raisedFence{ask.Term, slices.Clone(ask.Slots), time.Now()}
}
