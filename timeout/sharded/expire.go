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
	return x.end()
}

// expiry is a call of Expire.
type expiry struct {
	*core
	ask   engine.Ask
	parts []part // by place
	batch engine.Batch
	turn  int // the place asked first, with the largest share

	rounds   int
	answered bool
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

	batch engine.Batch // the last one
	err   error
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
	}
	return x
}

// plan sets the questions of the next round, and reports whether there are any.
func (x *expiry) plan() bool {
	x.rounds++
	left, open, asked := x.ask.Max-len(x.batch.Leased), 0, 0
	for i := range x.parts {
		p := &x.parts[i]
		p.max, p.asked = 0, p.err == nil && len(p.settle) > 0
		if p.open {
			open++
		}
	}
	for n := range x.parts {
		p := &x.parts[(x.turn+n)%len(x.parts)]
		if p.open && left > 0 {
			p.max = (left + open - 1) / open
			p.asked, p.looked = true, true
			left, open = left-p.max, open-1
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
	if p.err != nil {
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
	x.batch.Leased = append(x.batch.Leased, p.batch.Leased...)
	x.batch.Died = append(x.batch.Died, p.batch.Died...)
	more := !p.batch.Next.IsZero() && !p.batch.Next.After(p.batch.Now)
	p.open = p.open && more && len(p.batch.Leased) > 0
}

// end puts the answer together.
func (x *expiry) end() (engine.Batch, error) {
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
	for end, i := time.Now(), 0; i < len(x.parts); i++ {
		x.next(&x.parts[i], end)
	}
	x.batch.Leased = engine.Lasting(x.batch.Leased)
	slices.SortStableFunc(x.batch.Leased, func(a, b engine.Leased) int { return a.Due.Compare(b.Due) })
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
