package keepalive

import (
	"net"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// upgrade is a protocol above a connection, with a probe and a farewell of its own, see
// adapter.Protocol.
type upgrade struct {
	probe    func() error
	farewell func(reason net.Error, deadline time.Time) // or nil
}

// upgrade gives the connection a protocol of its own.
func (g *Guard) upgrade(probe func() error, farewell func(reason net.Error, deadline time.Time)) error {
	if !g.isOpen() {
		return ErrNotGuarded
	}
	return g.begin(g.keeper.policy.Load(), func(*rules.State) {
		u := g.userLocked()
		u.upgrade, u.exchanges = &upgrade{probe: probe, farewell: farewell}, nil
		if g.state().EndsBetween() != 0 {
			g.decideNow()
		}
		g.setLife(rules.Touches)
		g.flags.Or(flagUpgraded)
	})
}

// isUpgraded reports whether the connection has an upgrade.
func (g *Guard) isUpgraded() bool { return g.flags.Load()&flagUpgraded != 0 }

// upgradeNow returns the upgrade of the connection, or nil.
func (g *Guard) upgradeNow() *upgrade {
	if !g.isUpgraded() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.userNow().upgrade
}

// parting is the time of an upgrade's farewell. The program must not close the layers above
// before the farewell has gone through them. So it does not learn of the end before, unless its own calls fail.
type parting struct {
	once sync.Once
	over chan struct{} // closed with the first write, or with the end of the farewell
}

func newParting() *parting { return &parting{over: make(chan struct{})} }

// wait waits until the program may learn of the end. A nil parting is over.
func (p *parting) wait() {
	if p != nil {
		<-p.over
	}
}

// written says that bytes were written.
func (p *parting) written() { p.once.Do(func() { close(p.over) }) }

// part says the farewell of an upgrade.
func (c *conn) part(up *upgrade, timeout time.Duration) {
	defer c.parted() // even after runtime.Goexit
	if up.farewell != nil {
		c.guard.keeper.call("farewell", func() { up.farewell(c.guard.reason(), time.Now().Add(timeout)) })
	}
}

// parted ends the parting, if there is one: nothing is written any more, and the program may learn
// of the end.
func (c *conn) parted() {
	if p := c.parting.Swap(nil); p != nil {
		p.written()
		c.guard.endContext(c.guard.reason())
	}
}
