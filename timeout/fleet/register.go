package fleet

import (
	"cmp"
	"context"
	"io"
	"time"
)

// Register makes a session this node's: whoever had it loses it, here and elsewhere, and its
// connection there is closed with ReasonMoved. The lease is extended from then on without any
// doing of the program's, until Session.Close or Detach, or until the node takes the session
// away: then it closes conn, with Session.Reason saying why. conn can be anything that closes.
//
// It returns ErrArgument, ErrDraining, ErrClosed or ErrFull, ReasonMoved where somebody else has
// registered the session meanwhile, and what the client of Redis says. It does not close conn.
func (n *Node) Register(ctx context.Context, conn io.Closer, id string, meta []byte) (*Session, error) {
	if err := checkSession(id, meta); err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, argument("conn is nil, must be a connection")
	}
	if n.draining.Load() {
		return nil, ErrDraining
	}
	s := &Session{node: n, id: id, conn: conn, meta: string(meta)}
	s.good.Store(int64(n.elapsed()))
	answer, err := n.registrar.Call(ctx, registration{id: id, meta: s.meta})
	if err != nil {
		return nil, err
	}
	s.token = answer.token
	if err := n.install(s); err != nil {
		return nil, err
	}
	n.tellOnline(s, answer, false)
	return s, nil
}

// install has a session be found, and renewed, and takes it from the connection that had it here.
func (n *Node) install(s *Session) error {
	n.mu.Lock()
	if n.draining.Load() {
		n.mu.Unlock()
		n.leave(s.claim(), leaveDetach)
		return ErrDraining
	}
	old := n.sessions[s.id]
	if old != nil && old.claim().token.epoch() > s.token.epoch() {
		n.mu.Unlock()
		return ReasonMoved
	}
	n.sessions[s.id] = s
	err := n.wheel.Start(&s.timer, s, n.next())
	n.mu.Unlock()
	if old != nil {
		n.takeAway(old, ReasonMoved, leaveAlone)
	}
	return err
}

func (n *Node) tellOnline(s *Session, answer registered, again bool) {
	if n.cfg.OnOnline == nil {
		return
	}
	online := Online{
		Session: s.id, Epoch: answer.token.epoch(), Node: n.cfg.Node, Meta: []byte(s.meta),
		Resumed: answer.kind == kindResumed, Again: again,
	}
	if answer.kind == kindMoved || answer.kind == kindResumed {
		online.Before = answer.whose.node
	}
	_ = n.protect("OnOnline", func() error { n.cfg.OnOnline(online); return nil })
}

// registerTogether has registrations be made in batches. One for which nobody waits any more is
// taken back.
func (n *Node) registerTogether() {
	n.registrar.Closed = ErrClosed
	n.registrar.Do = n.registerNow
	n.registrar.Fail = func(answer registered, err error) error {
		if answer.kind == 0 {
			return cmp.Or(err, errNoAnswer)
		}
		return nil
	}
	n.registrar.Abandon = func(ask registration, answer registered) {
		n.leave(claim{ask.id, answer.token}, leaveEnd)
	}
}

func (n *Node) registerNow(asks []registration) ([]registered, error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	defer cancel()
	return n.store.register(ctx, asks)
}

// next is when a lease is to be extended: each at a time of its own, and none later than Renew.
func (n *Node) next() time.Duration {
	early := time.Duration(n.random() * n.cfg.Jitter * float64(n.cfg.Renew))
	return max(n.cfg.Renew-2*n.wheel.Tick()-early, n.wheel.Tick())
}
