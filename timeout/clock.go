package timeout

import "time"

// clock says what this node's clock shows when the engine's shows a time. Its answers have a monotonic
// reading, so a step of this node's clock puts no look off. The zero value takes both clocks for equal.
type clock struct{ engine, here time.Time } // the same moment by both, as far as an answer tells

func (c clock) at(due time.Time) time.Time {
	if c.here.IsZero() {
		c.here = time.Now()
		c.engine = c.here
	}
	return c.here.Add(due.Sub(c.engine))
}
