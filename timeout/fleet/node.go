package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/internal/groupcommit"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// closers is how many connections are closed at the same time.
const closers = 64

var errNoAnswer = errors.New("fleet: Redis has not answered")

// Node is a gateway with its sessions. New makes one, and Close ends it. Most programs call
// Register for a connection that has said who it is, and Session.Close when that ends. All
// methods may be called by several goroutines at the same time.
type Node struct {
	cfg       Config
	store     store
	wheel     *wheel.WheelOf[*Session] // what is to be renewed
	registrar groupcommit.Committer[registration, registered]
	renewer   renewer
	teller    teller
	began     time.Time
	random    func() float64

	draining atomic.Bool
	stats    counters

	// mu guards sessions: those that the node has, by id.
	mu       sync.Mutex
	sessions map[string]*Session

	closing closing
	stop    context.CancelFunc
	loops   sync.WaitGroup
	closed  sync.Once
}

// closing has the connections that are to be closed.
type closing struct {
	mu      sync.Mutex
	waiting []func()
	running int
	all     sync.WaitGroup
}

// New makes a node and connects to Redis; ctx is for that only. The node extends leases and
// tells ends until Close. It returns ErrArgument, wrapped with the value and its limit, where
// the config asks for something impossible.
func New(ctx context.Context, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	var by incarnation
	_, _ = rand.Read(by[:]) // it never fails
	kept, err := newRedisStore(ctx, cfg, by, serverScripts)
	if err != nil {
		return nil, err
	}
	return newNode(cfg, kept)
}

func newNode(cfg Config, kept store) (*Node, error) {
	ctx, stop := context.WithCancel(context.Background())
	n := &Node{cfg: cfg, store: kept, began: time.Now(), random: mathrand.Float64, sessions: make(map[string]*Session), stop: stop}
	n.registerTogether()
	n.renewer.wake = make(chan struct{}, 1)
	n.teller.changed = make(chan struct{}, 1)
	var err error
	// A renewal is due by the clock, whatever kept this process from running.
	n.wheel, err = wheel.NewOf(wheel.Config{Tick: n.tick(), Stall: -1}, n.renewer.due)
	if err != nil {
		stop()
		return nil, errors.Join(err, kept.close())
	}
	n.loops.Go(func() { n.renewLoop(ctx) })
	n.loops.Go(func() { n.watchLoop(ctx) })
	n.loops.Go(func() { n.listenLoop(ctx) })
	if cfg.OnOffline != nil {
		n.loops.Go(func() { n.tellLoop(ctx) })
	}
	return n, nil
}

// tick is how often renewals are looked for: they are sent together, and a batch of five times as
// many costs Redis half as much for each.
func (n *Node) tick() time.Duration {
	return max(min(n.cfg.Renew/50, 500*time.Millisecond), time.Millisecond)
}

// elapsed is the node's clock, which knows no steps.
func (n *Node) elapsed() time.Duration { return time.Since(n.began) }

// Lookup returns where a session is. It returns ErrNotFound where it is nowhere, or has ended.
func (n *Node) Lookup(ctx context.Context, id string) (Presence, error) {
	answers, err := n.store.get(ctx, []string{id})
	if err != nil {
		return Presence{}, err
	}
	f := answers[0]
	if !f.there || f.value.state == stateEnded {
		return Presence{}, fmt.Errorf("%w: %.520q", ErrNotFound, id)
	}
	return Presence{
		Session: id, Node: f.record.node, Epoch: f.value.token.epoch(), Since: time.UnixMilli(f.record.since),
		Until: time.UnixMilli(f.until), Detached: f.value.state == stateDetached, Meta: []byte(f.record.meta),
	}, nil
}

// Count returns how many sessions the fleet has, those that are detached among them.
func (n *Node) Count(ctx context.Context) (int64, error) {
	sessions, _, err := n.store.count(ctx)
	return sessions, err
}

// Kick ends a session, wherever it is: its connection is closed with ReasonKicked, at once as a
// rule and with the next extension of its lease at the latest. It returns ErrNotFound where there
// is none.
func (n *Node) Kick(ctx context.Context, id string) error {
	there, err := n.store.kick(ctx, id)
	if err == nil && !there {
		err = fmt.Errorf("%w: %.520q", ErrNotFound, id)
	}
	return err
}

// Len returns how many sessions this node has.
func (n *Node) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.sessions)
}

// Drain has the node take no more sessions, detaches those that it has, and closes their
// connections with ReasonDraining: who registers them on another node within Config.Resume
// resumes them, and nobody is told of anything. It returns when all are closed. When ctx ends
// before they are detached, it returns the cause, and the rest go on; it can be called again.
func (n *Node) Drain(ctx context.Context) error {
	n.mu.Lock()
	n.draining.Store(true)
	n.mu.Unlock()
	for {
		batch := n.some(batchSize)
		if len(batch) == 0 {
			n.closing.all.Wait()
			return nil
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		claims := claimsOf(batch)
		verdicts, err := n.store.unregister(ctx, claims, n.cfg.Resume)
		for i, s := range batch {
			switch {
			case verdicts[i] == unknown || verdicts[i] == held || verdicts[i] == ended:
				n.takeAway(s, ReasonDraining, leaveAlone)
			case verdicts[i] != 0:
				n.refused(s, verdicts[i])
			}
		}
		if err != nil {
			return fmt.Errorf("fleet: draining: %w", err)
		}
	}
}

// some returns a few of the sessions.
func (n *Node) some(limit int) []*Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	batch := make([]*Session, 0, min(limit, len(n.sessions)))
	for _, s := range n.sessions {
		if batch = append(batch, s); len(batch) == limit {
			break
		}
	}
	return batch
}

// Close ends the node: it drains, but for no longer than a call to Redis may take, and closes the
// connections that are left, whose sessions end with their leases. It waits for functions of
// the user's, must not be called from one, and is idempotent.
func (n *Node) Close() error {
	n.closed.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
		if err := n.Drain(ctx); err != nil {
			n.cfg.Logger.Warn("fleet: closing without having detached all sessions", "node", n.cfg.Node, "left", n.Len(), "error", err)
		}
		cancel()
		n.registrar.Close()
		n.stop()
		n.loops.Wait()
		for batch := n.some(batchSize); len(batch) > 0; batch = n.some(batchSize) {
			for _, s := range batch {
				n.takeAway(s, ReasonDraining, leaveAlone)
			}
		}
		n.wheel.Stop()
		n.closing.all.Wait()
		if err := n.store.close(); err != nil {
			n.cfg.Logger.Warn("fleet: closing the client", "error", err)
		}
	})
	return nil
}

// release has a session leave this node. It reports whether it was this call that did so.
func (n *Node) release(s *Session, reason Reason, left leave) bool {
	if !s.finish(reason, left) {
		return false
	}
	n.mu.Lock()
	if n.sessions[s.id] == s {
		delete(n.sessions, s.id)
	}
	n.mu.Unlock()
	s.timer.Remove()
	n.stats.ended(reason)
	if left != leaveAlone {
		n.leave(s.claim(), left)
	}
	return true
}

// takeAway releases a session whose connection does not know of it, and closes that.
func (n *Node) takeAway(s *Session, reason Reason, left leave) {
	if n.release(s, reason, left) {
		n.closing.add(func() { n.closeConn(s, reason) })
	}
}

func (n *Node) closeConn(s *Session, reason Reason) {
	if n.cfg.OnEnd != nil {
		_ = n.protect("OnEnd", func() error { n.cfg.OnEnd(s, reason); return nil })
	}
	if err := n.protect("closing a connection", s.conn.Close); err != nil {
		n.cfg.Logger.Debug("fleet: closing a connection", "session", s.id, "error", err)
	}
}

// add has f called by one of some goroutines, which exist only while there is something to do.
func (c *closing) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, f)
	if c.running < closers {
		c.running++
		c.all.Go(c.work)
	}
}

func (c *closing) work() {
	for {
		c.mu.Lock()
		if len(c.waiting) == 0 {
			c.running--
			c.mu.Unlock()
			return
		}
		f := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.mu.Unlock()
		f()
	}
}

// protect calls a function of the user's. A panic is its error.
func (n *Node) protect(what string, f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			n.stats.panics.Add(1)
			n.cfg.Logger.Error("fleet: "+what+" has panicked", "value", value, "stack", string(debug.Stack()))
			err = fmt.Errorf("fleet: %s has panicked: %v", what, value)
		}
	}()
	return f()
}

func claimsOf(sessions []*Session) []claim {
	claims := make([]claim, len(sessions))
	for i, s := range sessions {
		claims[i] = s.claim()
	}
	return claims
}

func argument(text string) error { return fmt.Errorf("%w: %s", ErrArgument, text) }
