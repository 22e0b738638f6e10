package fleet

import (
	"context"
	"sync"
	"time"
)

const (
	// closers is the most connections closed at the same time. If its client doesn't read, a
	// connection may take all of its time.
	closers = 1024

	// lastWord is how long a connection stays open for OnEnd at most.
	lastWord = time.Second
)

// closing holds the connections to close.
type closing struct {
	mu      sync.Mutex
	waiting []parting
	running int
	open    int            // connections not closed yet, waiting or not
	none    chan struct{}  // closed when open falls to 0; nil while it is 0
	all     sync.WaitGroup // the goroutines closing connections or running OnEnd
}

// parting is a connection to close at an instant of the node's clock, or sooner.
type parting struct {
	session *Session
	reason  Reason
	at      time.Duration
}

// takeAway releases a session and closes its connection, unless the session goes on with the
// same connection.
func (n *Node) takeAway(s *Session, reason Reason, left leave) {
	if !n.release(s, reason, left) || reason == ReasonMoved && n.goesOn(s) {
		return
	}
	p := parting{session: s, reason: reason, at: n.elapsed() + lastWord}
	if reason == ReasonLost {
		p.at = n.elapsed() + min(n.watchPeriod(), lastWord)
	}
	c := &n.closing
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, p)
	if c.open++; c.none == nil {
		c.none = make(chan struct{})
	}
	if c.running < closers {
		c.running++
		c.all.Go(n.closeSome)
	}
}

// closeSome closes connections until none waits.
func (n *Node) closeSome() {
	c := &n.closing
	for {
		c.mu.Lock()
		if len(c.waiting) == 0 {
			c.waiting = nil
			c.running--
			c.mu.Unlock()
			return
		}
		p := c.waiting[0]
		c.waiting[0] = parting{} // it must not stay in memory
		c.waiting = c.waiting[1:]
		c.mu.Unlock()
		n.part(p)
	}
}

// part closes a connection when OnEnd has returned, or when its time is over.
func (n *Node) part(p parting) {
	c := &n.closing
	if n.cfg.OnEnd != nil {
		if p.reason == ReasonDraining { // nobody waits for these, and there may be very many
			p.at = n.elapsed() + lastWord
		}
		said := make(chan struct{})
		c.all.Go(func() {
			defer close(said)
			_ = n.protect("OnEnd", func() error { n.cfg.OnEnd(p.session, p.reason); return nil })
		})
		if left := p.at - n.elapsed(); left > 0 {
			select {
			case <-said:
			case <-time.After(left):
			}
		}
	}
	if err := n.protect("closing a connection", p.session.conn.Close); err != nil {
		n.cfg.Logger.Debug("fleet: closing a connection", "session", p.session.id, "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 {
		close(c.none)
		c.none = nil
	}
}

// wait returns nil when all connections to close are closed, or the cause of ctx.
func (c *closing) wait(ctx context.Context) error {
	c.mu.Lock()
	none := c.none
	c.mu.Unlock()
	if none == nil {
		return nil
	}
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
