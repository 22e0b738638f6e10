package redis

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Peek is engine.Peeker's. It can't tell of a topic that this process does not know yet.
func (e *Engine) Peek(ctx context.Context, peeks []engine.Peek) ([]time.Duration, error) {
	if e.redis.Closed() {
		return nil, engine.ErrClosed
	}
	waits := make([]time.Duration, len(peeks))
	layouts := make([]*layout, len(peeks))
	var calls []*invocation
	for i, p := range peeks {
		l := e.known(p.Topic)
		if l == nil {
			continue
		}
		waits[i], layouts[i] = engine.NothingDue, l
		lease := l.Topic.WithDefaults().Lease
		for _, part := range e.partsOn(l, p.Slots, p.Part) {
			c := invoke(scriptFirst, l.partitions[part], engine.CeilMillis(lease))
			c.Keys, c.tasks = c.at.named(firstKeys), []int{i}
			calls = append(calls, c)
		}
	}
	_ = e.run(ctx, calls) // each call has its own error
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, c := range calls {
		i := c.tasks[0]
		switch {
		case c.Err != nil || c.Status != "":
			waits[i] = 0
		case len(c.Answer) == 2:
			waits[i] = min(waits[i], engine.Wait(integer(c.Answer[0])))
			layouts[i].due.set(c.at.part, integer(c.Answer[1]))
		}
	}
	return waits, nil
}
