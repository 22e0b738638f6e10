package fleet

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"
)

// registrar makes batches of registrations: one that comes alone goes at once, and those that
// come while others are under way go together.
type registrar struct {
	do      func([]registration) ([]registered, error)
	abandon func(claim) // a registration for which nobody waits any more

	mu      sync.Mutex
	waiting []*asked
	flies   bool
	closed  bool
	idle    sync.WaitGroup
}

type asked struct {
	registration
	done   chan struct{}
	answer registered
	err    error
	gone   bool // guarded by the registrar's mu until done
}

// call registers a session. Where ctx ends first, it is taken back if it was registered.
func (r *registrar) call(ctx context.Context, ask registration) (registered, error) {
	own := &asked{registration: ask, done: make(chan struct{})}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return registered{}, ErrClosed
	}
	r.waiting = append(r.waiting, own)
	if !r.flies {
		r.flies = true
		r.idle.Go(r.fly)
	}
	r.mu.Unlock()
	select {
	case <-own.done:
		return own.answer, own.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	own.gone = true
	r.mu.Unlock()
	select {
	case <-own.done: // just now
		if own.err == nil {
			r.abandon(claim{own.id, own.answer.token})
		}
	default:
	}
	return registered{}, context.Cause(ctx)
}

// fly registers what waits until nothing does.
func (r *registrar) fly() {
	for {
		r.mu.Lock()
		batch := r.waiting[:min(len(r.waiting), batchSize)]
		r.waiting = r.waiting[len(batch):]
		if len(batch) == 0 {
			r.waiting, r.flies = nil, false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		asks := make([]registration, len(batch))
		for i, own := range batch {
			asks[i] = own.registration
		}
		answers, err := r.do(asks)
		r.mu.Lock()
		var abandoned []claim
		for i, own := range batch {
			if own.answer = answers[i]; own.answer.kind == 0 {
				own.err = cmp.Or(err, errNoAnswer)
			} else if own.gone {
				abandoned = append(abandoned, claim{own.id, own.answer.token})
			}
			if !own.gone {
				close(own.done)
			}
		}
		r.mu.Unlock()
		for _, c := range abandoned {
			r.abandon(c)
		}
	}
}

// close refuses further registrations, and waits for those that are under way.
func (r *registrar) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.idle.Wait()
}

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
	answer, err := n.registrar.call(ctx, registration{id: id, meta: s.meta})
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

// registerNow is the registrar's.
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
