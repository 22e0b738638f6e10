package keepalive

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// condemn makes the Keeper close the connection whatever its peer says until then. It reports whether that cuts an exchange.
func (g *Guard) condemn(why Reason) (cuts bool) {
	g.decideSoon(func(s *rules.State) {
		cuts = g.isUnderWay()
		*s = s.Condemned(rules.Reason(why))
	})
	return cuts
}

// end gives the connection up and lets the adapter close it, unless the connection was touched or closed meanwhile.
func (v *visit) end(out rules.Outcome) {
	k := v.keeper
	k.unclosed.Add(1) // first: drains count the connection at every moment
	reason := Reason(out.Why)
	if !v.giveUp(reason, out.Anyway) {
		k.unclosed.Add(-1)
		return
	}
	closing := v.policy.Closing
	if reason == ReasonDrain && k.shutting.Load() && v.leaveToLayers() {
		closing = Closing{Timeout: closing.Timeout}
	}
	if out.Reset { // without a farewell: its bytes would wait, too
		closing = Closing{Timeout: closing.Timeout, Mode: CloseReset}
		v.setFlag(flagUpgraded, false)
	}
	if !v.isUpgraded() { // otherwise the farewell comes first, through layers that the program may close
		v.endContext(reason)
	}
	ending := adapter.Ending{Reason: reason, Mode: adapter.Mode(closing.Mode), Timeout: closing.Timeout}
	defer func() { v.adapter.End(v.Binding(), ending) }() // even after runtime.Goexit
	if closing.Farewell != nil && !v.isUpgraded() {
		k.call("Closing.Farewell", func() { ending.Farewell = closing.Farewell(v.conn, reason) })
	}
}

// giveUp ends the guarding of a connection for a reason, anyway or only if nobody has touched it
// meanwhile. If an exchange has begun since the decision, another visit decides anew. mu makes it one step for release.
func (v *visit) giveUp(reason Reason, anyway bool) bool {
	g := v.Guard
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isUnderWay() && v.seen.Exchange != rules.Never && !v.seen.Arriving {
		g.again = true
		return false
	}
	give := g.timer.ExpireSeen
	if anyway {
		give = g.timer.Remove
	}
	_, ok := give()
	if ok {
		g.flags.Or(uint32(reason) << reasonShift)
	}
	return ok
}

// release ends the guarding of a connection. It reports false if the guarding has ended before.
// Then reason says why: 0 after Keeper.Close.
func (g *Guard) release() bool {
	_, ok := g.timer.Remove()
	if !ok { // giveUp may be about to set the reason
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	return ok
}

// closed counts a closed connection and tells OnClose. Adapters call it once.
func (g *Guard) closed(reason Reason) {
	defer g.setFlag(flagEnded, true)
	k := g.keeper
	k.counts.closed[reason].Add(1)
	now := k.now()
	age := now.Sub(g.born)
	if g.flags.Load()&flagAdvises != 0 {
		touched, _ := g.timer.Touched()
		g.endsSilence(now.Sub(rules.Time(touched)), false)
	}
	k.ages.observe(age)
	g.leaveKeeper(reason)
	if k.log.Enabled(context.Background(), slog.LevelDebug) {
		k.log.Debug("keepalive: closed a connection", "reason", reason.String(), "remote", g.knownRemote())
	}
	if reason == ReasonFull || reason == ReasonEvicted {
		k.warnFull()
	}
	if g.reason() != 0 {
		defer k.unclosed.Add(-1) // even after runtime.Goexit
	}
	if onClose := k.policy.Load().OnClose; onClose != nil {
		defer k.call("OnClose", func() { onClose(g.conn, reason) })
	}
	k.callWatchers(g, reason, age)
}

// forget ends a guard as closed does, for a connection that stays open, or was never the program's: OnClose hears nothing.
func (g *Guard) forget(why error) {
	g.leaveKeeper(why)
	g.setFlag(flagEnded, true)
}

// leaveKeeper takes a connection off the count of its key and ends its context, after its guarding has
// ended.
func (g *Guard) leaveKeeper(why error) {
	g.mu.Lock()
	g.flags.And(^uint32(flagOpen))
	member := g.setMember(nil)
	g.mu.Unlock()
	g.keeper.shares.leave(member)
	g.endContext(why)
}

// lose ends the guarding of a connection without its guard: nobody can have touched the
// connection, so its silence is no reason to close it.
func (g *Guard) lose() {
	if !g.release() {
		return
	}
	g.forget(ErrNotGuarded)
	g.keeper.log.Error("keepalive: a connection has lost its guard; it stays open, unguarded",
		"conn", fmt.Sprintf("%T", g.conn))
}

const (
	// perClose is how many tries are spread over the time of one close. So closes come as often as they may even if three
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
// first when the pace allows a close is closed, and the others reserve anew. A try costs some microseconds.
type pace struct {
	mu   sync.Mutex
	next rules.Time // the end of the time that the closes so far take by the rate
	try  rules.Time // the last instant reserved
}

// reserve reports whether the pace allows a close now, and otherwise when to try again.
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

// tryAgain hands the connection over at once if it waits for the pace.
func (g *Guard) tryAgain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state().IsLeaving(true) {
		g.decideNow()
	}
}
