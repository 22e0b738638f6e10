package sharded

import (
	"context"
	"errors"
	"slices"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// maxOwed is the largest number of outcomes of a topic kept for a shard. There are never more than this process
// has leased.
const maxOwed = 100_000

// owe keeps outcomes for a shard without an answer, and its guard tells them. Expire does not: a hanging shard would make
// the others late.
func (e *core) owe(place int, topic string, outcomes []engine.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	e.mu.Lock()
	all := append(e.owed[place][topic], outcomes...)
	e.owed[place][topic] = all[max(0, len(all)-maxOwed):]
	e.mu.Unlock()
	e.shards[place].doubt()
}

// owes reports whether the shard in place has not yet got an outcome of the topic, so its times are not final. e.mu
// must be held.
func (e *core) owes(place int, topic string) bool {
	return len(e.owed[place][topic])+len(e.told[place][topic]) > 0
}

// repay tells a shard what it is owed. It reports whether the shard has answered.
func (e *core) repay(s *shard) bool {
	e.mu.Lock()
	owed := e.owed[s.place]
	e.owed[s.place], e.told[s.place] = make(map[string][]engine.Outcome), owed
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.told[s.place] = nil
		e.mu.Unlock()
	}()
	answered := true
	for topic, outcomes := range owed {
		for some := range slices.Chunk(outcomes, chunk) {
			answered = e.tell(e.life, s, topic, some) && answered
		}
	}
	return answered
}

// tell tells a shard outcomes, and reports whether it has answered. If not, they are owed.
func (e *core) tell(ctx context.Context, s *shard, topic string, outcomes []engine.Outcome) bool {
	within, cancel := context.WithTimeout(ctx, e.cfg.Patience)
	defer cancel()
	err := e.callLong(within, s, func(ctx context.Context, eng engine.Engine) error { // it is not away for that
		_, err := eng.Expire(ctx, engine.Ask{Topic: topic, Settle: outcomes})
		return err
	})
	if !engine.IsTrouble(err) && !errors.Is(err, engine.ErrFull) {
		return true
	}
	e.owe(s.place, topic, outcomes)
	return false
}
