package keepalive

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// extras is the part of a connection's state for the program: a value, a context, probes, checks.
type extras struct {
	value     any
	context   context.Context
	cancel    context.CancelCauseFunc
	probed    rules.Time // of the first unanswered probe of a silence, or 0
	roundTrip time.Duration
	meanTrip  time.Duration // see Info.MeanRoundTrip
	header    uint64        // how many bytes at the beginning are not the peer's, see adapter.Binding
	checks    *checks       // or nil
	upgrade   *upgrade      // or nil
	exchanges *exchanges    // or nil
	stall     *rules.Stall  // or nil for a zero one
}

// extrasLocked returns the extras of the connection, and makes it if there is none. mu must be held.
func (g *Guard) extrasLocked() *extras {
	r := g.makeRare()
	if r.extras == nil {
		r.extras = new(extras)
	}
	return r.extras
}

// noExtras are the extras of connections without any.
var noExtras extras

// extrasNow returns the extras of the connection to read: zero ones if it has none. mu must be held.
func (g *Guard) extrasNow() *extras {
	if r := g.rare.Load(); r != nil && r.extras != nil {
		return r.extras
	}
	return &noExtras
}

// SetValue keeps a value with the connection: a session, a WebSocket. It reports whether the
// connection is guarded.
func (g *Guard) SetValue(value any) bool {
	if !g.isOpen() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.extrasLocked().value = value
	return true
}

// Value returns what SetValue has kept last, also after the connection was closed, or nil.
func (g *Guard) Value() any {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.extrasNow().value
}

// Context returns a context with the lifetime of the connection, the same one each time. Its
// cause (context.Cause) is the [Reason] of the connection's end. If the Keeper closes the
// connection, the context is done before the close, and before a Read or Write returns the Reason. If the connection is not guarded, and after
// [Keeper.Close], the context is done because of [ErrNotGuarded].
func (g *Guard) Context() context.Context {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.isOpen() {
			u := g.extrasLocked()
			if u.context == nil {
				u.context, u.cancel = context.WithCancelCause(context.Background())
				if why := g.reason(); why != 0 && !g.isUpgraded() { // its end has begun; with an upgrade the farewell comes first
					u.cancel(why)
				}
			}
			return u.context
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotGuarded)
	return ctx
}

// endContext ends the context of a connection, just before its end.
func (g *Guard) endContext(why error) {
	g.mu.Lock()
	end := g.extrasNow().cancel
	g.mu.Unlock()
	if end != nil {
		end(why)
	}
}

// SetTimeout gives the connection a timeout of its own, longer or shorter than the one in the
// config. It begins now, or with the first message if there was none yet. Durations related to
// the config's Timeout, such as Probe.After, are stretched with it. SetTimeout returns the
// timeout in force, within Interval.Min and Interval.Max. It returns [ErrArgument] if d is not
// positive, and [ErrNotGuarded].
func (g *Guard) SetTimeout(d time.Duration) (time.Duration, error) {
	if d <= 0 {
		return 0, fmt.Errorf("%w: timeout %v, must be positive", ErrArgument, d)
	}
	if !g.isOpen() {
		return 0, ErrNotGuarded
	}
	p := g.keeper.policy.Load()
	d = p.Interval.clamped(d, p.Tick)
	return d, g.change(func(s *rules.State) { s.Own = d })
}

// SetInterval is SetTimeout for a peer with an announced heartbeat interval: its timeout is
// Interval.Multiplier times beat. With MQTT, beat is the keepalive of the CONNECT. Zero or less
// means no heartbeats: the timeout is the config's again.
func (g *Guard) SetInterval(beat time.Duration) (time.Duration, error) {
	if !g.isOpen() {
		return 0, ErrNotGuarded
	}
	p := g.keeper.policy.Load()
	if beat > 0 {
		return g.SetTimeout(max(1, rules.Saturated(float64(beat)*p.Interval.Multiplier)))
	}
	return p.Timeout, g.change(func(s *rules.State) { s.Own = 0 })
}

// SetActivity changes what counts as life of this connection, from now on: say, after an
// upgrade to another protocol. The change is a touch. If the socket can't tell when bytes
// arrived, ActivityKernel is ActivityRead. SetActivity returns [ErrArgument] if [New] would
// refuse the config with that activity, and [ErrNotGuarded].
func (g *Guard) SetActivity(a Activity) error {
	if !g.isOpen() {
		return ErrNotGuarded
	}
	if a == ActivityReadWrite && g.isUpgraded() {
		return wrong("Activity %v of an upgraded connection, whose probes themselves would be life", a)
	}
	p := g.keeper.policy.Load()
	changed := p.Config
	changed.Activity = a
	if err := changed.Validate(); err != nil {
		return err
	}
	life := g.flagsOf(p, a) & lifeMask // may log
	return g.change(func(*rules.State) {
		g.setLife(rules.Life(life))
	})
}

// change changes the state of a connection. Unless its first message is awaited, the change is a
// touch. The touch comes first: otherwise a decision between the two would apply the change to
// the silence before.
func (g *Guard) change(change func(*rules.State)) error {
	g.keeper.wheel.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.state()
	_, quiet := g.timer.Touched() // since the last decision
	awaited := s.Silence.Stage == rules.Opened && quiet
	hidden := g.life().Untold()
	if !awaited && !g.timer.Touch() {
		return ErrNotGuarded
	}
	change(&s)
	g.setState(s, g.limitNow())
	p := g.keeper.policy.Load() // with mu held: after an Update there is an adaptation to come
	g.timer.SetDelay(p.rulesOf(g).Hop(s, g.draw()))
	hidden = hidden || g.life().Untold()
	if awaited && hidden { // only the socket knows whether it has come, or will come
		g.setFlag(flagChanged, true)
		g.decideNow()
	}
	return nil
}

// limitNow returns the latest instant of the next decision. mu must be held.
func (g *Guard) limitNow() rules.Time {
	if r := g.rare.Load(); r != nil {
		return rules.Time(r.limit.Load())
	}
	return rules.Never
}

// Hold tells the Keeper of work for the connection: its silence does not count until release is
// called. If the Keeper has just decided to close the connection for its silence, and not closed it yet, the decision is
// void. The release is a touch, and may be repeated. Ages and rates go on. A vanished peer is
// not noticed while its connection is held, with one exception, for TCP on Linux: the
// connection is closed if its peer takes nothing of the bytes written to it. It gets a timeout
// from the first look at them, so two timeouts at most.
func (g *Guard) Hold() (release func()) {
	if !g.isOpen() {
		return func() {}
	}
	g.hold(1)
	return sync.OnceFunc(func() { g.hold(-1) })
}

// hold adds n to the holds of the connection.
func (g *Guard) hold(n int32) {
	var now rules.Time
	if n > 0 {
		g.endsSilence(g.timer.SinceTouch(), false)
	} else { // it begins anew
		now = g.keeper.now()
		g.keeper.wheel.Now()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.state()
	if s.Holds += n; n < 0 {
		s.Released = now
	}
	if n < 0 || g.visited { // a decision to close the connection is void
		g.timer.Touch()
	}
	g.setState(s, g.limitNow())
}

func (g *Guard) isHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state().Holds > 0
}

// Deadline returns when the connection will be closed at the earliest if nothing more is heard
// of its peer, and for what reason. It is a forecast: a verdict of OnIdle, bytes waiting in the
// socket, pressure or [Keeper.Update] can change it. The zero time and reason 0 mean no end, as
// long as the connection is held or its silence is ignored. Only the socket knows of ReadIdle,
// WriteIdle and WriteStall, and only the program of its Checks, so they are not in it. ok is false if the connection is not guarded.
func (g *Guard) Deadline() (at time.Time, reason Reason, ok bool) {
	end, now, reason, ok := g.deadline()
	if reason == 0 {
		return time.Time{}, 0, ok
	}
	return time.Now().Add(max(0, end.Sub(now))), reason, true
}

// deadline is Deadline by the Keeper's time.
func (g *Guard) deadline() (end, now rules.Time, why Reason, ok bool) {
	if !g.isOpen() {
		return 0, 0, 0, false
	}
	k := g.keeper
	p, now := k.policy.Load(), k.now()
	e := rules.Evidence{Draw: g.draw(), Born: g.born, Pressure: k.pressure(p, time.Duration(now))}
	g.mu.Lock()
	touched, quiet := g.timer.Touched()
	e.Touched, e.Quiet, e.Exchange = rules.Time(touched), quiet, g.exchangeNow()
	end, because := rules.Deadline(p.rulesOf(g), g.state(), e, now)
	g.mu.Unlock()
	return end, now, Reason(because), true
}

// Info is what a Keeper knows of a connection, at one moment. The time in which the process was stopped belongs to no
// Age and no Idle, if it was more than a second and ten ticks. Until the Keeper has noticed, as much of it does.
type Info struct {
	ID        uint64        // of the connection, from 1: no other connection of the Keeper ever has it
	Age       time.Duration // since it was guarded
	Idle      time.Duration // since the last touch; with ActivityKernel, since the last bytes that the Keeper knows of
	Timeout   time.Duration // how long it may be silent, see SetTimeout
	RoundTrip time.Duration // of the last answer to a probe, or 0, see Pong
	Held      bool          // see Hold
	Key       string        // see SetKey, or ""

	// MeanRoundTrip is the mean of the round trips of probes, or 0: each new one counts an eighth, as in RFC 6298.
	MeanRoundTrip time.Duration

	// The rest is from the socket, and for a Check only: Guard.Info asks no socket. All but Received and Unread is 0 where
	// only TCP on Linux tells.
	SmoothedRTT  time.Duration // the kernel's mean of round trips, of all bytes acknowledged
	Received     uint64        // bytes from the peer since the opening, read or not
	Acked        uint64        // bytes written since the opening, and acknowledged by the peer
	DeliveryRate uint64        // bytes per second lately acknowledged, by the kernel's estimate
	Unread       int           // bytes that wait for this program to read them
	Unacked      int           // bytes written and not acknowledged, sent or not
	Retransmits  int           // packets sent again since the opening
}

// Info describes the connection. ok is false if it is not guarded.
func (g *Guard) Info() (info Info, ok bool) {
	if !g.isOpen() {
		return Info{}, false
	}
	c, ok := g.glance()
	now := g.keeper.now()
	return Info{
		ID: c.ID, Age: now.Sub(rules.Time(c.Opened)), Idle: max(0, now.Sub(rules.Time(c.Touched))), Timeout: c.Timeout,
		RoundTrip: c.RoundTrip, MeanRoundTrip: c.MeanRoundTrip, Held: c.Held, Key: c.Key,
	}, ok
}

// RemoteAddr returns the address of the connection's peer, or nil if it is not known, or the
// connection is not guarded. It is known from the beginning, or after the first read of a
// connection that reads a PROXY header first. If an adapter does not tell the address, only
// the connection's event loop may know it: then RemoteAddr waits for the loop until ctx is
// done, and must not be called in the loop itself.
func (g *Guard) RemoteAddr(ctx context.Context) net.Addr {
	if !g.isOpen() {
		return nil
	}
	if remote := g.knownRemote(); remote != nil {
		return remote
	}
	answer := make(chan net.Addr, 1) // the loop may answer when ctx is done
	if g.adapter.Do(ctx, g.Binding(), func() { answer <- g.adapter.Peer(g.Binding()) }) != nil {
		return nil
	}
	return <-answer
}

// Close closes the connection for a reason, with the farewell and in the mode of
// Config.Closing, and returns at once. An invalid reason acts as ReasonLocal. Close
// reports whether the connection was still guarded.
func (g *Guard) Close(reason Reason) bool {
	if !g.isOpen() {
		return false
	}
	g.condemn(reason.orLocal())
	return true
}
