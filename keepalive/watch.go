package keepalive

import (
	"cmp"
	"context"
	"net"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/view"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// End is how a guarded connection ended.
type End struct {
	ID     uint64 // see Info
	Guard  *Guard // of the connection, which is not guarded any more
	At     time.Time
	Remote net.Addr // address of the peer, or nil if unknown
	Reason Reason
	Age    time.Duration // since it was guarded
	Idle   time.Duration // since its last touch
}

// Watch has f called with the end of each connection, from now on and until stop is called. It
// is for pages and logs; OnClose is the program's own. f is called on the goroutine of OnClose,
// just before it, and must not block. stop may be called more than once; f may still be running
// when it returns.
func (k *Keeper) Watch(f func(End)) (stop func()) {
	w := &watcher{f}
	k.watchers.Add(w)
	return func() { k.watchers.Remove(func(other *watcher) bool { return other == w }) }
}

type watcher struct{ see func(End) }

// callWatchers tells of the end of a connection. It is called on a goroutine allowed to ask the
// adapter for the address.
func (k *Keeper) callWatchers(g *Guard, reason Reason, age time.Duration) {
	all := k.watchers.All()
	if len(all) == 0 {
		return
	}
	remote := g.knownRemote()
	if remote == nil {
		remote = g.adapter.Peer(g.Binding())
	}
	touched, _ := g.timer.Touched()
	end := End{ID: g.id, Guard: g, At: time.Now(), Remote: remote, Reason: reason, Age: age, Idle: max(0, k.now().Sub(rules.Time(touched)))}
	for _, w := range slices.Backward(all) {
		defer k.call("Watch", func() { w.see(end) }) // even after runtime.Goexit in another one
	}
}

// For package debughttp.
func init() {
	view.Set(view.Funcs[Keeper, Guard, Reason]{
		Now:  func(k *Keeper) time.Duration { return time.Duration(k.now()) },
		Look: (*Guard).glance,
		Deadline: func(g *Guard) (at time.Duration, why Reason, ok bool) {
			end, _, why, ok := g.deadline()
			return time.Duration(end), why, ok
		},
		Ask: func(ctx context.Context, g *Guard) (view.Traffic, bool) { return g.traffic(ctx) },
	})
}

// glance looks at the connection. ok is false if it is not guarded.
func (g *Guard) glance() (c view.Conn, ok bool) {
	touched, quiet := g.timer.Touched()
	g.mu.Lock()
	s, u, remote := g.state(), g.extrasNow(), g.remote
	c.RoundTrip, c.MeanRoundTrip = u.roundTrip, u.meanTrip
	g.mu.Unlock()
	c.ID, c.Remote, c.Key, c.Opened, c.Touched = g.id, remote, g.member().key(), time.Duration(g.born), touched
	c.Timeout, c.Held, c.State = cmp.Or(s.Own, g.keeper.policy.Load().Timeout), s.Holds > 0, stateOf(s, quiet)
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

// traffic asks the socket how many bytes have come and gone. ok is false if it does not tell.
func (g *Guard) traffic(ctx context.Context) (t view.Traffic, ok bool) {
	answer := make(chan report, 1) // the loop may answer when ctx is done
	if g.adapter.Do(ctx, g.Binding(), func() { answer <- g.ask() }) != nil {
		return t, false
	}
	e := <-answer
	return view.Traffic{Received: e.arrived(), Acked: e.acked, RoundTrip: e.roundTrip}, e.received >= 0
}
