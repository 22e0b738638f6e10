package keepalive

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/view"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// For package debughttp.
func init() {
	view.Set(view.Funcs[Keeper, Guard, Reason]{
		Now:      func(k *Keeper) time.Duration { return time.Duration(k.now()) },
		Look:     (*Guard).glance,
		Deadline: (*Guard).deadlineView,
		Ask:      func(ctx context.Context, g *Guard) (view.Traffic, bool) { return g.traffic(ctx) },
	})
}

// glance looks at the connection. ok is false if it is not guarded.
func (g *Guard) glance() (c view.Conn, ok bool) {
	touched, quiet := g.timer.Touched()
	g.mu.Lock()
	s, remote := g.state(), g.remote
	if u := g.userNow(); u != nil {
		c.RoundTrip = u.roundTrip
	}
	g.mu.Unlock()
	c.ID, c.Remote, c.Opened, c.Touched = g.id, remote, time.Duration(g.born), touched
	c.Timeout, c.State = s.Own, stateOf(s, quiet)
	if c.Timeout == 0 {
		c.Timeout = g.keeper.policy.Load().Timeout
	}
	return c, g.isOpen()
}

// stateOf names the state of a connection. quiet is Evidence.Quiet.
func stateOf(s rules.State, quiet bool) string {
	switch {
	case s.IsLeaving(quiet):
		return view.Leaving
	case s.Holds > 0:
		return view.Held
	case quiet && s.Silence.Stage == rules.Opened:
		return view.New
	case quiet && s.Silence.Stage == rules.Probing:
		return view.Probing
	}
	return view.Open
}

func (g *Guard) deadlineView() (at time.Duration, why Reason, ok bool) {
	end, _, why, ok := g.deadline()
	return time.Duration(end), why, ok
}

// traffic asks the socket how many bytes have come and gone. ok is false if it does not tell.
func (g *Guard) traffic(ctx context.Context) (t view.Traffic, ok bool) {
	answer := make(chan evidence, 1) // the loop may answer when ctx is done
	if g.adapter.Do(ctx, g.Binding(), func() { answer <- g.ask() }) != nil {
		return t, false
	}
	e := <-answer
	return view.Traffic{Received: e.arrived(), Acked: e.answered, RoundTrip: e.roundTrip}, e.received >= 0
}
