package memory

import (
	"context"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// maxSweep is how many tasks of each kind and topic a call of Upkeep deletes.
const maxSweep = 1000

// Upkeep is engine.Engine's.
func (e *Engine) Upkeep(ctx context.Context, _ int64) (swept engine.Swept, err error) {
	if err := e.enter(ctx); err != nil {
		return swept, err
	}
	defer e.mu.Unlock()
	at := now()
	for name, t := range e.topics {
		ended := e.sweep(&t.ended, at-engine.CeilMillis(t.Retain), 0)
		most := len(t.dead)
		if t.MaxDead >= 0 {
			most = t.MaxDead
		}
		dead := e.sweep(&t.dead, at-engine.CeilMillis(t.RetainDead), len(t.dead)-most)
		swept.AddDead(name, dead)
		swept.More = swept.More || ended == maxSweep || dead == maxSweep
	}
	return swept, nil
}

// sweep drops entries that ended by then, and the oldest surplus ones: at most maxSweep. It
// returns their number.
func (e *Engine) sweep(h *byTime, then int64, surplus int) (n int) {
	for n < maxSweep && len(*h) > 0 && ((*h)[0].at <= then || n < surplus) {
		e.drop((*h)[0])
		n++
	}
	return n
}
