package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/wheel"
)

var (
	errNoAnswer  = errors.New("fleet: Redis has not answered")
	errElsewhere = errors.New("fleet: the slot has changed lanes")
)

// Node is a gateway with its sessions. New makes one, and Close ends it. Most programs call
// Register for a connection that has said who it is, and leave it to Config.Keeper, or call
// Session.Close, when that ends. All methods may be called by several goroutines at the same time.
type Node struct {
	cfg     Config
	store   store
	wheel   *wheel.WheelOf[*Session] // what is to be renewed
	renewer renewer
	beats   beats
	teller  teller
	layout  layout
	herald  herald
	began   time.Time
	random  func() float64

	draining atomic.Bool
	stats    counters

	// mu guards sessions, those that the node has, by id, and arriving, those that it asks for.
	mu       sync.Mutex
	sessions map[string]*Session
	arriving map[string]*arrivals
	coming   sync.WaitGroup // for those; none is added once the node drains

	closing closing
	stop    context.CancelFunc
	loops   sync.WaitGroup
	closed  sync.Once
}

// New makes a node and connects to Redis; ctx is for that only. The node extends leases and
// tells ends until Close. It returns ErrArgument, wrapped with the value and its limit, where
// the config asks for something impossible, and what the client of Redis says.
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
	if err := kept.subscribe(ctx); err != nil { // what becomes of its first session is told, too
		return nil, errors.Join(err, kept.close())
	}
	return newNode(cfg, kept)
}

func newNode(cfg Config, kept store) (*Node, error) {
	ctx, stop := context.WithCancel(context.Background())
	n := &Node{cfg: cfg, store: kept, began: time.Now(), random: mathrand.Float64, stop: stop}
	n.sessions, n.arriving = make(map[string]*Session), make(map[string]*arrivals)
	n.registerTogether()
	if cfg.NodeLease > 0 {
		n.beats.begin(kept.slots(), cfg.beat())
	}
	n.renewer.begin(kept.slots())
	n.layout.doubt = make(chan struct{}, 1)
	n.teller.changed = make(chan struct{}, 1)
	var err error
	// A renewal is due by the clock, whatever kept this process from running.
	n.wheel, err = wheel.NewOf(wheel.Config{Tick: n.tick(), Stall: -1}, wheel.Funcs[*Session]{Due: n.renewer.due})
	if err != nil {
		stop()
		return nil, errors.Join(err, kept.close())
	}
	for i := range n.renewer.lanes {
		n.loops.Go(func() { n.renewLoop(ctx, &n.renewer.lanes[i]) })
	}
	if !cfg.Outlive {
		n.loops.Go(func() { n.watchLoop(ctx) })
	}
	n.loops.Go(func() { n.listenLoop(ctx) })
	n.loops.Go(func() { n.layoutLoop(ctx) })
	if cfg.NodeLease > 0 {
		n.loops.Go(func() { n.beatLoop(ctx) })
	}
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

func (n *Node) slotOf(id string) uint16 { return uint16(timeout.Slot(id, n.store.slots())) }

func (n *Node) everySlot() []bool { return slices.Repeat([]bool{true}, n.store.slots()) }

// Lookup returns where a session is. It returns ErrNotFound where it is nowhere, or has ended,
// ErrArgument for what can't be one, ErrClosed, and what the client of Redis says.
func (n *Node) Lookup(ctx context.Context, id string) (Presence, error) {
	all, err := n.LookupAll(ctx, []string{id})
	if err != nil {
		return Presence{}, err
	}
	if all[0].Epoch == 0 {
		return Presence{}, fmt.Errorf("%w: %.520q", ErrNotFound, id)
	}
	return all[0], nil
}

// LookupAll returns where sessions are, in their order: of one that is nowhere, or has ended, there
// is the id only, and Epoch is 0. With an error, as of Lookup, there is nothing.
func (n *Node) LookupAll(ctx context.Context, ids []string) ([]Presence, error) {
	for _, id := range ids {
		if err := checkSession(id, nil); err != nil {
			return nil, err
		}
	}
	answers, err := n.store.get(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := make([]Presence, len(ids))
	for i, f := range answers {
		all[i] = f.presence(ids[i])
	}
	return all, nil
}

// Count returns how many sessions the fleet has, those that are detached among them.
func (n *Node) Count(ctx context.Context) (int64, error) {
	sessions, _, err := n.store.count(ctx)
	return sessions, err
}

// Kick ends a session, wherever it is: its connection is closed with ReasonKicked when its node
// hears of it, or with the next extension of its lease where Redis loses that message. It returns
// ErrNotFound where there is none, and else the errors of Lookup.
func (n *Node) Kick(ctx context.Context, id string) error {
	if err := checkSession(id, nil); err != nil {
		return err
	}
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
// resumes them, and nobody is told of anything. It returns when all are closed, with or without
// Config.OnEnd having returned, so that this may call it. When ctx ends before, it returns the
// cause, and where Redis fails, what its client says; those that are not detached go on, and it
// can be called again.
func (n *Node) Drain(ctx context.Context) error {
	if err := n.detachAll(ctx); err != nil {
		return err
	}
	return n.closing.wait(ctx)
}

func (n *Node) detachAll(ctx context.Context) error {
	n.mu.Lock()
	n.draining.Store(true)
	n.mu.Unlock()
	for {
		batch, silent := n.answering(batchSize)
		if len(batch) == 0 {
			return nil
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		// Of several servers one may hang: it has what is left of the time when the others are done.
		limited, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
		if silent {
			limited = ctx
		}
		err := n.detach(limited, batch)
		cancel()
		if err != nil && (silent || ctx.Err() != nil) {
			return fmt.Errorf("fleet: draining: %w", err)
		}
	}
}

// detach has some sessions wait to be resumed, and closes their connections.
func (n *Node) detach(ctx context.Context, batch []*Session) error {
	verdicts, err := n.store.unregister(ctx, claimsOf(batch), n.cfg.Resume)
	n.stats.failed(err)
	slots := make([]uint16, len(batch))
	for i, s := range batch {
		slots[i] = s.slot
		switch verdicts[i] {
		case 0:
		case unknown, held, ended:
			n.takeAway(s, ReasonDraining, leaveAlone)
		default:
			n.refused(s, verdicts[i])
		}
	}
	n.heard(slots, func(i int) bool { return verdicts[i] != 0 }, err)
	return err
}

// answering returns a few of the sessions in slots that answer or, where there are none, of the others.
func (n *Node) answering(limit int) (batch []*Session, silent bool) {
	quiet := n.renewer.quiet()
	n.mu.Lock()
	defer n.mu.Unlock()
	var others []*Session
	for _, s := range n.sessions {
		if !quiet[s.slot] {
			batch = append(batch, s)
		} else if len(others) < limit {
			others = append(others, s)
		}
		if len(batch) == limit {
			break
		}
	}
	if len(batch) == 0 {
		return others, true
	}
	return batch, false
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

// in returns the sessions of some slots. That is to look at all that the node has, so only where
// something has happened.
func (n *Node) in(slots []bool) (sessions []*Session) {
	if !slices.Contains(slots, true) {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sessions {
		if slots[s.slot] {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

// Close ends the node: it drains, but for no longer than a call to Redis may take, and closes the
// connections that are left, whose sessions end with their leases, or with that of the node. It
// waits for functions of the user's, must not be called from one, and is idempotent. It returns nil.
func (n *Node) Close() error {
	n.closed.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
		drained := n.detachAll(ctx)
		if err := drained; err != nil {
			n.cfg.Logger.Warn("fleet: closing without having detached all sessions", "node", n.cfg.Node, "left", n.Len(), "error", err)
		}
		cancel()
		for i := range n.renewer.lanes {
			n.renewer.lanes[i].registrar.Close()
		}
		n.coming.Wait() // they leave at once
		n.stop()
		n.loops.Wait()
		if drained == nil {
			n.sayGoodbye()
		}
		for batch := n.some(batchSize); len(batch) > 0; batch = n.some(batchSize) {
			for _, s := range batch {
				n.takeAway(s, ReasonDraining, leaveAlone)
			}
		}
		n.wheel.Stop()
		n.closing.all.Wait()
		n.herald.all.Wait()
		if err := n.store.close(); err != nil {
			n.cfg.Logger.Warn("fleet: closing the client", "error", err)
		}
	})
	return nil
}

// sayGoodbye ends the node's own lease, where nothing needs it any more. Otherwise its sessions
// end with it.
func (n *Node) sayGoodbye() {
	if n.cfg.NodeLease == 0 || n.renewer.unsent() > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	defer cancel()
	if err := n.store.goodbye(ctx); err != nil {
		n.cfg.Logger.Warn("fleet: closing without a goodbye", "node", n.cfg.Node, "error", err)
	}
}

// release has a session leave this node. It reports whether it was this call that did so.
func (n *Node) release(s *Session, reason Reason, left leave) bool {
	if !s.finish(reason, left) {
		return false
	}
	n.mu.Lock()
	if n.sessions[s.id] == s {
		delete(n.sessions, s.id)
		n.noteLost(s.claim(), superseded) // one that was asked for before it may be answered now
	}
	n.mu.Unlock()
	s.timer.Remove()
	n.stats.ended(reason)
	if left != leaveAlone {
		n.leave(s.claim(), left)
	}
	return true
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
