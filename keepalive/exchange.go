package keepalive

import (
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// exchanges are the requests of a connection and their answers, see adapter.Exchanges. A drain and an age end the
// connection between two of them.
type exchanges struct {
	ending func()     // tells the program, once
	told   Reason     // why it was told, or 0
	until  rules.Time // when no exchange will be under way
}

// lastWord is how long a connection stays after an exchange, and after its program was told of the end: the
// next request may be on its way, and the program may have to say goodbye. net/http takes a second for a GOAWAY.
const lastWord = 1500 * time.Millisecond

// exchanges says that the connection has exchanges. A nil function says that it has none any more.
func (g *Guard) exchanges(ending func()) {
	if ending != nil {
		g.beginExchanges(ending)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.userLocked()
	if u.exchanges != nil && u.exchanges.told != 0 {
		g.decideNow()
	}
	u.exchanges = nil
}

func (g *Guard) beginExchanges(ending func()) {
	g.mu.Lock()
	g.userLocked().exchanges = &exchanges{ending: ending, until: g.keeper.now().Add(lastWord)}
	isOld := g.state().Age.Told != 0 && !g.keeper.policy.Load().Closing.DryRun
	g.mu.Unlock()
	if isOld { // it was slow to begin
		g.tell(ReasonMaxAge)
	}
}

// exchange says that an exchange is under way, or none.
func (g *Guard) exchange(underWay bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.userNow().exchangesNow()
	switch {
	case x == nil:
	case underWay:
		x.until = rules.Never
	default:
		x.until = g.keeper.now().Add(lastWord)
		if x.told != 0 {
			g.decideNow()
		}
	}
}

// tell tells the program that its connection is to end between two exchanges.
func (g *Guard) tell(why Reason) {
	g.mu.Lock()
	x := g.userNow().exchangesNow()
	if x == nil || x.told != 0 {
		g.mu.Unlock()
		return
	}
	x.told = why
	x.until = max(x.until, g.keeper.now().Add(lastWord))
	g.mu.Unlock()
	g.keeper.call("ending", x.ending)
}

// dismiss has the connection closed whatever its peer says until then, and between two exchanges.
func (g *Guard) dismiss(why Reason) {
	g.tell(why)
	g.decideSoon(func(m *more) { m.state = m.state.Dismissed(rules.Reason(why)) })
}

// localReason returns why the program has closed the connection: it was told to, or wanted to.
func (g *Guard) localReason() Reason {
	g.mu.Lock()
	defer g.mu.Unlock()
	if x := g.userNow().exchangesNow(); x != nil && x.told != 0 {
		return x.told
	}
	return ReasonLocal
}

// isUnderWay reports whether an exchange is under way.
func (g *Guard) isUnderWay() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.exchangeNow() == rules.Never
}

// exchangesNow returns the exchanges, or nil. mu must be held.
func (u *user) exchangesNow() *exchanges {
	if u == nil {
		return nil
	}
	return u.exchanges
}

// exchangeNow returns rules.Evidence.Exchange. mu must be held.
func (g *Guard) exchangeNow() rules.Time {
	if x := g.userNow().exchangesNow(); x != nil {
		return x.until
	}
	return 0
}
