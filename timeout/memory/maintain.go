package memory

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// maxPurge is how many tasks of each kind and topic a call of Maintain deletes.
const maxPurge = 1000

// Maintain is engine.Engine's.
func (e *Engine) Maintain(ctx context.Context) (engine.Purged, error) {
	return call(ctx, e, func() (purged engine.Purged, _ error) {
		asked := time.Now()
		e.follow(asked)
		at := asked.UnixMilli()
		for name, t := range e.topics.All() {
			ended := e.purge(&t.ended, at-engine.CeilMillis(t.Retain), 0)
			most := len(t.dead)
			if t.MaxDead >= 0 {
				most = t.MaxDead
			}
			dead := e.purge(&t.dead, at-engine.CeilMillis(t.RetainDead), len(t.dead)-most)
			purged.AddDead(name, dead)
			purged.More = purged.More || ended == maxPurge || dead == maxPurge
		}
		return purged, nil
	})
}

// maxStep is the longest step of the clock, in milliseconds, by which leases may end too early or too late.
const maxStep = 100

// follow gives leases their ends anew after the clock was stepped, or the machine suspended: they are lengths of time, and end
// that much later or earlier by the clock. What was told before of the next due time is wrong, too. e.mu must be held.
func (e *Engine) follow(now time.Time) {
	ahead := e.clockAhead(now)
	step := ahead - e.ahead
	if -maxStep < step && step < maxStep {
		return
	}
	e.ahead = ahead
	for name, t := range e.topics.All() {
		for _, en := range t.tasks.All() {
			if en.state == engine.Running {
				e.enter(en, engine.Running, en.more.ends+ahead)
			}
		}
		e.wake(name)
	}
}

// clockAhead returns how far the clock has been stepped since the engine's start, in milliseconds: by how much
// longer than the engine has run the clock has gone on. Both come from one reading: a pause of the process between
// two would look like a step.
func (e *Engine) clockAhead(now time.Time) int64 {
	byClock := now.Round(0).Sub(e.start.Round(0))
	return (byClock - now.Sub(e.start)).Round(time.Millisecond).Milliseconds()
}

// purge drops entries that ended by then, and the oldest surplus ones: at most maxPurge. It
// returns their number.
func (e *Engine) purge(h *byTime, then int64, surplus int) (n int) {
	for n < maxPurge && len(*h) > 0 && ((*h)[0].at <= then || n < surplus) {
		e.drop((*h)[0])
		n++
	}
	return n
}
