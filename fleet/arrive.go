package fleet

import (
	"io"
	"reflect"
	"slices"
)

// arrivals are this node's registrations of an id, asked for and not installed yet. Redis may
// announce the loss of a registration before it answers the request for it. Such news is kept here.
type arrivals struct {
	asking []*Session
	lost   token   // the newest token no longer the node's
	why    verdict // superseded or kicked
}

// arrive counts a session among the arrivals, until arrived.
func (n *Node) arrive(s *Session) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.draining.Load() {
		return ErrDraining
	}
	if err := n.layout.wrong(); err != nil {
		return err
	}
	a := n.arriving.Get(s.id)
	if a == nil {
		a = &arrivals{}
		n.arriving.Set(s.id, a)
	}
	a.asking = append(a.asking, s)
	n.coming.Add(1)
	return nil
}

// arrived ends the arrival of a session: it is installed, or will not be.
func (n *Node) arrived(s *Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.arriving.Get(s.id)
	if a.asking = slices.DeleteFunc(a.asking, func(other *Session) bool { return other == s }); len(a.asking) == 0 {
		n.arriving.Delete(s.id)
	}
	n.coming.Done()
}

// noteLost keeps registrations up to a token from being installed. n.mu must be held.
func (n *Node) noteLost(c claim, why verdict) {
	if a := n.arriving.Get(c.id); a != nil && a.lost.epoch() <= c.token.epoch() {
		a.lost, a.why = c.token, why
	}
}

// lose takes a session away if its token is no newer than the claim's, whether it is installed
// or arrives.
func (n *Node) lose(c claim, why verdict) {
	n.mu.Lock()
	n.noteLost(c, why)
	s := n.sessions.Get(c.id)
	n.mu.Unlock()
	if s != nil && s.claim().token.epoch() <= c.token.epoch() {
		n.refused(s, why)
	}
}

// goesOn reports whether a session has been registered anew with the same connection, or is
// about to.
func (n *Node) goesOn(s *Session) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	same := func(other *Session) bool { return other != s && sameConn(other.Conn(), s.Conn()) }
	if now := n.sessions.Get(s.id); now != nil && same(now) {
		return true
	}
	a := n.arriving.Get(s.id)
	return a != nil && slices.ContainsFunc(a.asking, same)
}

// sameConn reports whether two connections are the same. A connection can be any io.Closer, even
// an incomparable one: such a connection equals none.
func sameConn(a, b io.Closer) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}
