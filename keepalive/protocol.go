package keepalive

import (
	"net"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// exchanges are the requests of a connection and their answers, see adapter.Protocol. A drain and an age end the
// connection between two of them.
type exchanges struct {
	ending func()       // tells the program, once; nil if there are none any more
	close  func() error // closes the layers above, or nil
	told   Reason       // why the program was told, or 0
	until  rules.Time   // when no exchange will be under way
	any    bool         // there was one
}

func (b binding) Exchanges(ending func(), closeLayers func() error) {
	b.mu.Lock()
	tell := func() {}
	if ending != nil {
		b.extrasLocked().exchanges = &exchanges{ending: ending, close: closeLayers, until: b.keeper.now().Add(rules.LastWord)}
		if why := b.state().EndsBetween(); why != 0 { // it was slow to begin
			tell = b.announcement(Reason(why))
		}
	} else if x := b.extrasNow().exchanges; x != nil {
		x.ending = nil
		b.endSoon(x) // the program may be about to say what comes next, and to upgrade the connection
	}
	b.mu.Unlock()
	tell()
}

// Exchange gives an exchange under way all bytes read so far.
func (b binding) Exchange(underWay bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.openExchanges()
	switch {
	case x == nil:
	case underWay:
		x.until, x.any = rules.Never, true
		b.setFlag(flagCame|flagReadsOn, false)
	default:
		b.endSoon(x)
	}
}

// endSoon says that no exchange is under way, but for the last word. mu must be held.
func (g *Guard) endSoon(x *exchanges) {
	x.until = g.keeper.now().Add(rules.LastWord)
	if g.state().EndsBetween() != 0 {
		g.decideNow()
	}
}

// settle renews the last word of a connection that Drain does not wait for. Any other has one last word, and a decision
// right after it: a wheel of long ticks would come too late.
func (g *Guard) settle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	x, now := g.stayingExchanges(), g.keeper.now()
	switch {
	case x == nil:
	case x.any && !g.begins():
		x.until = max(x.until, now.Add(rules.LastWord))
	case x.until <= now:
		g.decideNow()
	}
}

// announcement notes that the program is told of the end between two exchanges, and returns a function to call without mu, which
// tells it. mu must be held.
func (g *Guard) announcement(why Reason) func() {
	x := g.openExchanges()
	if x == nil || x.told != 0 {
		return func() {}
	}
	x.told = why
	x.until = max(x.until, g.keeper.now().Add(rules.LastWord))
	ending := x.ending
	return func() { g.keeper.call("ending", ending) }
}

// dismiss closes the connection whatever its peer says until then, and between two exchanges: to returns its state, or false
// if it stays. mu is held during to. Exchanges that begin at the same time are told here, or by Exchanges.
func (g *Guard) dismiss(why Reason, to func(s rules.State) (rules.State, bool)) (leaves bool) {
	tell := func() {}
	g.mu.Lock()
	s, leaves := to(g.state())
	if leaves {
		tell = g.announcement(why)
		g.makeRare().state = s
		g.decideNow()
	}
	g.mu.Unlock()
	tell()
	return leaves
}

// localReason returns why the program has closed the connection: it was told to, or wanted to.
func (g *Guard) localReason() Reason {
	g.mu.Lock()
	defer g.mu.Unlock()
	if x := g.extrasNow().exchanges; x != nil && x.told != 0 {
		return x.told
	}
	return ReasonLocal
}

// isUnderWay reports whether an exchange is under way, or has begun to arrive. mu must be held.
func (g *Guard) isUnderWay() bool {
	x := g.openExchanges()
	return x != nil && (x.until == rules.Never || g.isArriving())
}

// mayBegin reports whether an exchange may begin that the program drops if it is told now, also behind one that is under
// way.
func (g *Guard) mayBegin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.stayingExchanges()
	return x != nil && (g.begins() || !x.any && x.until > g.keeper.now())
}

// waits reports whether an exchange, or a decision on the connection, waits for this process. It says nothing of bytes that
// the peer has yet to send, nor of an exchange under way.
func (g *Guard) waits() bool {
	g.mu.Lock()
	x := g.stayingExchanges()
	may := x != nil && x.until != rules.Never && (g.begins() || !x.any)
	g.mu.Unlock()
	if !may {
		return false
	}
	if _, ok := g.adapter.(*conn); ok && g.ask().unread > 0 { // others may be asked by a visit only
		g.came()
		return true
	}
	return g.begins() && g.flags.Load()&flagReadsOn == 0
}

// isArriving reports whether bytes that begin an exchange have come after the last one. Without exchanges that
// means nothing.
func (g *Guard) isArriving() bool {
	return g.flags.Load()&arriving == arriving
}

// begins reports whether bytes begin an exchange, see adapter.Protocol.
func (g *Guard) begins() bool { return g.flags.Load()&flagBegins != 0 }

// readsOn notes that the program is about to read.
func (g *Guard) readsOn() {
	if g.flags.Load()&(arriving|flagReadsOn) == arriving {
		g.flags.Or(flagReadsOn)
	}
}

// came notes that bytes were read, or are seen in the socket: before the program is known to have read them, they may be in
// neither place.
func (g *Guard) came() {
	if flags := g.flags.Load(); flags&(flagCame|flagReadsOn) != flagCame {
		g.flags.And(^uint32(flagReadsOn))
		g.flags.Or(flagCame)
	}
}

// openExchanges returns the exchanges, or nil if there are none any more. mu must be held.
func (g *Guard) openExchanges() *exchanges {
	if x := g.extrasNow().exchanges; x != nil && x.ending != nil {
		return x
	}
	return nil
}

// stayingExchanges is openExchanges, but nil if the connection is closed, or the Keeper closes it: what still arrives is not
// for the program. mu must be held.
func (g *Guard) stayingExchanges() *exchanges {
	if !g.isOpen() || g.reason() != 0 {
		return nil
	}
	return g.openExchanges()
}

// exchangeNow returns rules.Evidence.Exchange. mu must be held.
func (g *Guard) exchangeNow() rules.Time {
	x := g.extrasNow().exchanges
	if x == nil || x.ending == nil && x.until <= g.keeper.now() {
		return 0
	}
	return x.until
}

// upgrade is a protocol above a connection, with a probe and a farewell of its own, see
// adapter.Protocol.
type upgrade struct {
	probe    func() error
	farewell func(reason net.Error, deadline time.Time) // or nil
}

// leaveToLayers reports whether the layers above say that the connection ends, in place of a farewell: those of a connection
// with exchanges in Binder.Drain. In the middle of an exchange they say nothing.
func (g *Guard) leaveToLayers() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.openExchanges()
	if x == nil {
		return false
	}
	if x.close != nil && x.until != rules.Never {
		g.extrasNow().upgrade = &upgrade{farewell: func(net.Error, time.Time) { _ = x.close() }}
		g.flags.Or(flagUpgraded)
	}
	return true
}

func (b binding) Upgrade(probe func() error, farewell func(reason net.Error, deadline time.Time)) error {
	if !b.isOpen() {
		return ErrNotGuarded
	}
	return b.change(func(*rules.State) {
		u := b.extrasLocked()
		u.upgrade, u.exchanges = &upgrade{probe: probe, farewell: farewell}, nil
		if b.state().EndsBetween() != 0 {
			b.decideNow()
		}
		b.setLife(rules.Touches)
		b.flags.Or(flagUpgraded)
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
	return g.extrasNow().upgrade
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
