package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Register makes a session this node's. Its previous owner loses it, here or elsewhere, and
// that owner's connection is closed with ReasonMoved, unless it is conn itself. From then on
// the node extends the lease by itself, until Session.Close or Detach, or until the node takes
// the session away. In that case the node closes conn, and Session.Reason says why.
//
// An id is from 1 to 512 bytes of UTF-8. meta has up to 4096 bytes; Lookup and the functions of
// Config get it. conn can be anything that closes. With Config.Keeper it is a connection
// guarded by the Keeper, and the session is closed with it.
//
// Register waits for Redis: call it from a goroutine of its own, not from an event loop such as
// gnet's. If ctx ends after Redis was asked, the session may have been taken from its previous
// owner already. That owner's connection is then closed, even if it is conn. The registration is
// taken back: the session ends, or waits to be resumed if it had an owner or was detached. After an
// error of the client of Redis the session may be registered or not: if so, it ends with its new
// lease.
//
// Register returns ErrArgument, ErrDraining, ErrClosed or ErrFull; ReasonMoved or ReasonKicked
// if the session was registered or kicked meanwhile; keepalive.ErrNotGuarded for a connection
// not, or no longer, guarded by the Keeper; and the errors of the client of Redis. Register
// itself does not close conn.
func (n *Node) Register(ctx context.Context, conn io.Closer, id string, meta []byte) (*Session, error) {
	if err := checkSession(id, meta); err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, fmt.Errorf("%w: conn is nil, must be a connection", ErrArgument)
	}
	var g *guarded
	if n.cfg.Keeper != nil {
		g = &guarded{Closer: conn, guard: keepalive.Of(conn)}
		g.life = g.guard.Context()
		if g.life.Err() != nil {
			return nil, context.Cause(g.life)
		}
		conn = g
	}
	s := &Session{node: n, id: id, conn: conn, meta: string(meta), slot: n.slotOf(id)}
	answer, err := n.ask(ctx, s)
	if err != nil {
		return nil, err
	}
	n.tellOnline(s, answer, false)
	if g != nil {
		s.follow(g)
	}
	return s, nil
}

// ask registers a session in Redis, and installs it.
func (n *Node) ask(ctx context.Context, s *Session) (answer registered, err error) {
	if err := n.arrive(s); err != nil {
		return answer, err
	}
	defer n.arrived(s)
	for err = errElsewhere; errors.Is(err, errElsewhere); {
		answer, err = n.renewer.laneOf(s.slot).registrar.Call(ctx, registration{id: s.id, meta: s.meta})
	}
	if err != nil {
		return answer, err
	}
	s.token, s.kind, s.known = answer.token, answer.kind, answer.known
	s.good.Store(int64(answer.sent))
	return answer, n.install(s)
}

// install makes a session visible to the node, starts its renewals, and takes it from its
// earlier connection here.
func (n *Node) install(s *Session) error {
	known := s.known
	n.mu.Lock()
	if n.draining.Load() {
		n.mu.Unlock()
		n.leave(s.claim(), s.meta, leaveDetach)
		return ErrDraining
	}
	if a := n.arriving.Get(s.id); a != nil && a.lost.epoch() >= s.token.epoch() {
		wasKicked := a.why == kicked && a.lost == s.token
		n.mu.Unlock()
		if wasKicked {
			n.leave(s.claim(), s.meta, leaveKick)
			return ReasonKicked
		}
		return ReasonMoved
	}
	old := n.sessions.Get(s.id)
	if old != nil && old.claim().token.epoch() > s.token.epoch() {
		n.mu.Unlock()
		return ReasonMoved
	}
	n.sessions.Set(s.id, s)
	err := n.wheel.Start(&s.timer, s, n.next())
	n.mu.Unlock()
	if !n.alive(s.slot, known, n.elapsed()) { // others were looked at just before
		n.renewer.push([]*Session{s})
	}
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

// registerTogether sets up registration in batches. A registration is taken back if its caller
// no longer waits.
func (n *Node) registerTogether() {
	for i := range n.renewer.lanes {
		l := &n.renewer.lanes[i]
		r := &l.registrar
		r.Closed = ErrClosed
		r.Do = func(asks []registration) ([]registered, error) { return n.registerIn(l, asks) }
		r.Fail = func(answer registered, err error) error {
			switch answer.kind {
			case 0:
				return cmp.Or(err, errNoAnswer)
			case kindElsewhere:
				return errElsewhere
			}
			return nil
		}
		r.Abandon = n.takeBack
	}
}

// takeBack undoes a registration.
func (n *Node) takeBack(ask registration, answer registered) {
	how := leaveEnd
	if answer.kind == kindMoved || answer.kind == kindResumed {
		how = leaveDetach // its client was there just now, and may ask again
	}
	gone := claim{ask.id, answer.token}
	n.lose(gone, superseded)
	n.leave(gone, ask.meta, how)
}

// registerIn registers the sessions with slots in the lane l. The slots of the others have
// changed lanes since the call. Those sessions are sent to the other lane, and need not wait
// here.
func (n *Node) registerIn(l *lane, asks []registration) ([]registered, error) {
	if n.draining.Load() {
		return nil, ErrDraining // else the node would take sessions from others, only to detach them
	}
	answers := make([]registered, len(asks))
	own, items := make([]registration, 0, len(asks)), make([]int, 0, len(asks))
	for i, ask := range asks {
		if n.renewer.laneOf(n.slotOf(ask.id)) != l {
			answers[i].kind = kindElsewhere
			continue
		}
		own, items = append(own, ask), append(items, i)
	}
	if len(own) == 0 {
		return answers, nil
	}
	given, err := n.registerNow(own)
	for j, i := range items {
		answers[i] = given[j]
	}
	return answers, err
}

func (n *Node) registerNow(asks []registration) ([]registered, error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	defer cancel()
	sent := n.elapsed()
	answers, err := n.store.register(ctx, asks)
	n.stats.failed(err)
	slots := make([]uint16, len(answers))
	for i := range answers {
		answers[i].sent, slots[i] = sent, n.slotOf(asks[i].id)
	}
	if !errors.Is(err, ErrFull) { // ErrFull is an answer, too
		n.heard(slots, func(i int) bool { return answers[i].kind != 0 }, err)
	}
	n.learnTogether(asks, answers, sent)
	return answers, err
}

// next is the time until a lease is to be extended: a random one for each, and never more than
// Renew.
func (n *Node) next() time.Duration {
	early := time.Duration(n.random() * n.cfg.Jitter * float64(n.cfg.Renew))
	return max(n.cfg.Renew-2*n.tick()-early, n.tick())
}
