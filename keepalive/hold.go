package keepalive

import (
	"sync"
	"time"
)

// Hold says that this program is busy with a connection: its silence does not count
// until the function that Hold returns is called, which is a touch. That may be called
// more than once. MaxAge and its grace, and rates, go on. A connection that is not
// guarded can be held too, with no effect.
func (k *Keeper) Hold(conn any) (release func()) {
	g := k.guardOf(conn)
	if g == nil {
		return func() {}
	}
	d := k.detailsOf(g)
	d.holds.Add(1)
	return sync.OnceFunc(func() {
		d.mu.Lock()
		d.released = time.Now()
		d.mu.Unlock()
		g.member.Touch() // first, or there would be a moment in which it is just silent
		d.holds.Add(-1)
	})
}
