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
		e.follow()
		at := now()
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

// maxStep is the longest step of the clock, in milliseconds, to pass for a wait between two looks.
const maxStep = 1000

// follow files the waiting tasks again after the clock was stepped, or the machine suspended. Their timers
// wait for lengths of time. Leases are such lengths, and end that much later or earlier by the clock. Until
// then tasks that come too early after a step back are filed again by look. e.mu must be held.
func (e *Engine) follow() {
	ahead := e.clockAhead(time.Now())
	step := ahead - e.ahead
	if -maxStep < step && step < maxStep {
		return
	}
	e.ahead = ahead
	for _, t := range e.topics.All() {
		for _, en := range t.tasks.All() {
			if en.state == engine.Running {
				en.leave() // a lease that has ended, too
				en.at = en.more.ends + ahead
			}
			if en.waits() {
				e.file(en)
			}
		}
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
