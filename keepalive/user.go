package keepalive

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// user is the part of a connection's state for the program: a value, a context, probes, checks.
type user struct {
	value     any
	context   context.Context
	cancel    context.CancelCauseFunc
	probed    rules.Time // of the first unanswered probe of a silence, or 0
	roundTrip time.Duration
	meanTrip  time.Duration // see Info.MeanRoundTrip
	checks    *checks       // or nil
	upgrade   *upgrade      // or nil
	exchanges *exchanges    // or nil
}

// user returns the user of the connection, and makes it if there is none.
func (g *Guard) user() *user {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.userLocked()
}

func (g *Guard) userLocked() *user {
	m := g.need()
	if m.user == nil {
		m.user = new(user)
	}
	return m.user
}

// userNow returns the user of the connection, or nil. mu must be held.
func (g *Guard) userNow() *user {
	if m := g.more.Load(); m != nil {
		return m.user
	}
	return nil
}

// SetValue keeps a value with the connection: a session, a WebSocket. It reports whether the
// connection is guarded.
func (g *Guard) SetValue(value any) bool {
	if !g.isOpen() {
		return false
	}
	u := g.user()
	g.mu.Lock()
	defer g.mu.Unlock()
	u.value = value
	return true
}

// Value returns what SetValue has kept last, also after the connection was closed, or nil.
func (g *Guard) Value() any {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if u := g.userNow(); u != nil {
		return u.value
	}
	return nil
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
			u := g.userLocked()
			if u.context == nil {
				u.context, u.cancel = context.WithCancelCause(context.Background())
				if why := g.reason(); why != 0 { // its end has begun
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
	end := g.userNow().end()
	g.mu.Unlock()
	end(why)
}

// end returns a function that ends the context. A nil user has none. mu must be held.
func (u *user) end() context.CancelCauseFunc {
	if u != nil && u.cancel != nil {
		return u.cancel
	}
	return func(error) {}
}
