package keepalive

import (
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

const (
	// perClose is how many tries are spread over the time of one close. So the rate is used up even if three
	// connections of four are heard before their try.
	perClose = 4

	// betweenTries is the longest time between the tries of two connections: a thousand connections have tried
	// within a second at any rate, and a million within 17 minutes.
	betweenTries = time.Millisecond
)

// pace bounds how many connections are closed in a second, by the generic cell rate algorithm. A close above the
// rate reserves an instant at which its connection tries again, and which is a deadline like any other: if the
// connection is heard until then, nothing has to be undone.
//
// An instant is not a place in a queue. After an outage most connections are heard before they are closed. Each
// would leave a gap in a queue, and a close behind a million gaps would wait for hours. So the instants follow each
// other several times as fast as closes may, as airlines sell more seats than there are: the connection that tries
// first when the rate allows a close is closed, and the others reserve anew. A try costs some microseconds.
type pace struct {
	mu   sync.Mutex
	next rules.Time // the end of the time that the closes so far take by the rate
	try  rules.Time // the last instant reserved
}

// reserve reports whether the rate allows a close now, and otherwise when to try again.
func (c *pace) reserve(now rules.Time, p *policy) (allowed bool, retry rules.Time) {
	every := time.Second / time.Duration(p.Closing.MaxPerSecond)
	burst := min(p.Tick, time.Second) // all of a tick come at once, and the bound is one of a second
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = max(c.next, now)
	if c.next < now.Add(burst) {
		c.next = c.next.Add(every)
		return true, 0
	}
	c.try = max(c.try.Add(min(every/perClose, betweenTries)), c.next.Add(1-burst))
	return false, c.try
}

// tryAgain hands the connection over at once if it waits for the rate.
func (g *Guard) tryAgain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state().IsLeaving(true) {
		g.decideNow()
	}
}
