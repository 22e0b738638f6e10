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

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/internal/shrink"
	"github.com/heartwheel-go/heartwheel/wheel"
)

var (
	errNoAnswer  = errors.New("fleet: Redis has not answered")
	errElsewhere = errors.New("fleet: the slot has changed lanes")
)

// Node is a gateway with its sessions. Open makes one, and Close ends it. Most programs call Register
// when a client has named its session. When the connection ends, Config.Keeper ends the session, or
// the program calls Session.Close. Several goroutines may call the methods at the same time.
type Node struct {
	cfg     Config
	store   store
	wheel   *wheel.WheelOf[*Session] // renewals
	renewer renewer
	beats   beats
	teller  teller
	layout  layout
	herald  herald
	began   time.Time
	random  func() float64

	draining atomic.Bool
	stats    counters

	mu       sync.Mutex                    // guards sessions and arriving
	sessions shrink.Map[string, *Session]  // the node's sessions, by id
	arriving shrink.Map[string, *arrivals] // registrations under way, by id
	coming   sync.WaitGroup                // waits for arriving; a draining node adds none

	closing closing
	stop    context.CancelFunc
	loops   sync.WaitGroup
	closed  sync.Once
}

// Open makes a node with the Redis of a URL, "redis://user:password@host:port/db", with "rediss" for
// TLS and "unix" for a socket. If the server is part of a Cluster, the node uses all of it. ctx is for
// the connecting only. The node extends leases and tells ends until Close, which also closes the
// connections to Redis. docs/redis.md lists the commands for a Redis user with few rights.
//
// Open returns ErrArgument, wrapped with the value and its limit, if the config or the URL is
// impossible, and if a server that answers is older than 7.0 or evicts keys. It also returns the
// errors of the Redis client.
func Open(ctx context.Context, url string, cfg Config) (*Node, error) {
	return open(ctx, cfg, func() (*redisrun.Client, error) { return redisrun.Open(ctx, url, names) })
}

// New is Open with the caller's client: a *redis.Client or a *redis.ClusterClient of go-redis. The
// caller closes the client after the node. It must have MaxRetries -1, since Redis may have run a
// script even if the answer was lost, and ContextTimeoutEnabled, since Timeout has no effect without
// it. New returns ErrArgument for another client, and for nil.
func New(ctx context.Context, client goredis.UniversalClient, cfg Config) (*Node, error) {
	return open(ctx, cfg, func() (*redisrun.Client, error) {
		redis, err := redisrun.New(client, names)
		if err == nil {
			err = redis.Inspect(ctx)
		}
		return redis, err
	})
}

func open(ctx context.Context, cfg Config, connect func() (*redisrun.Client, error)) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	redis, err := connect()
	if err != nil {
		return nil, err
	}
	var by incarnation
	_, _ = rand.Read(by[:]) // it never fails
	kept, err := newRedisStore(ctx, redis, cfg, by, serverScripts)
	if err != nil {
		return nil, err
	}
	if err := kept.subscribe(ctx); err != nil { // before the first session, to hear news of it
		return nil, errors.Join(err, kept.close())
	}
	return newNode(cfg, kept)
}

func newNode(cfg Config, kept store) (*Node, error) {
	ctx, stop := context.WithCancel(context.Background())
	n := &Node{cfg: cfg, store: kept, began: time.Now(), random: mathrand.Float64, stop: stop}
	n.registerTogether()
	if cfg.NodeLease > 0 {
		n.beats.begin(kept.slots(), cfg.beat())
	}
	n.renewer.begin(kept.slots())
	n.layout.doubt = make(chan struct{}, 1)
	n.teller.changed = make(chan struct{}, 1)
	var err error
	// A renewal is due by the clock, even if this process was stopped meanwhile.
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

// tick returns the time between two looks for due renewals. Renewals of a tick go together: a batch
// five times as large costs Redis half as much per session.
func (n *Node) tick() time.Duration {
	return max(min(n.cfg.Renew/50, 500*time.Millisecond), time.Millisecond)
}

// elapsed returns the time by the node's clock. It is monotonic and has no steps.
func (n *Node) elapsed() time.Duration { return time.Since(n.began) }

func (n *Node) slotOf(id string) uint16 { return uint16(slotAmong(id, n.store.slots())) }

func (n *Node) everySlot() []bool { return slices.Repeat([]bool{true}, n.store.slots()) }

// Lookup returns the presence of a session. It returns ErrNotFound if the session is nowhere or has
// ended, ErrArgument for an impossible id, ErrClosed, and the errors of the Redis client.
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

// LookupAll returns the presences of sessions, in the order of ids. If a session is nowhere or has
// ended, its presence has only the id, and Epoch is 0. The errors are those of Lookup, but for
// ErrNotFound.
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

// Count returns the number of sessions of the fleet, detached ones included.
func (n *Node) Count(ctx context.Context) (int64, error) {
	sessions, _, err := n.store.count(ctx)
	return sessions, err
}

// Kick ends a session on any node. Its node closes the connection with ReasonKicked as soon as it
// hears of the kick. If Redis loses that message, the node hears at the next extension of the lease.
// The errors are those of Lookup.
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

// Len returns the number of this node's sessions.
func (n *Node) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sessions.Len()
}

// Drain stops the node from taking sessions, detaches its sessions, and closes their connections
// with ReasonDraining. A client can resume its session on another node within Config.Resume; then
// OnOffline is not told. Drain returns when all connections are closed, even if
// Config.OnEnd still runs, so OnEnd may call Drain.
//
// If ctx ends early, Drain returns its cause; if Redis fails, the error of the Redis client. The
// remaining sessions go on, and Drain can be called again.
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
		// One of several servers may hang. Its turn comes last, with all the time left.
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

// detach detaches some sessions, and closes their connections.
func (n *Node) detach(ctx context.Context, batch []*Session) error {
	verdicts, err := n.unregister(ctx, claimsOf(batch), func(i int) string { return batch[i].meta }, 'c', n.cfg.Resume)
	slots := make([]uint16, len(batch))
	for i, s := range batch {
		slots[i] = s.slot
		switch verdicts[i] {
		case 0:
		case held, ended:
			n.takeAway(s, ReasonDraining, leaveAlone)
		default:
			n.refused(s, verdicts[i])
		}
	}
	n.heard(slots, func(i int) bool { return verdicts[i] != 0 }, err)
	return err
}

// answering returns a few of the sessions in answering slots. If there are none, it returns a few of
// the others, and silent is true.
func (n *Node) answering(limit int) (batch []*Session, silent bool) {
	quiet := n.renewer.quiet()
	n.mu.Lock()
	defer n.mu.Unlock()
	var others []*Session
	for _, s := range n.sessions.All() {
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

// in returns the sessions of some slots. It looks at all sessions of the node, so it is only for
// rare events.
func (n *Node) in(slots []bool) (sessions []*Session) {
	if !slices.Contains(slots, true) {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sessions.All() {
		if slots[s.slot] {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

// Close ends the node. It drains for at most Config.Timeout, then closes the remaining connections.
// Their sessions end with their leases, or with the node's lease. Close waits for the user's
// functions, and must not be called from one. It is idempotent and returns nil.
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
		n.coming.Wait() // new sessions leave at once
		n.stop()
		n.loops.Wait()
		if drained == nil {
			n.sayGoodbye()
		}
		for _, s := range n.in(n.everySlot()) {
			n.takeAway(s, ReasonDraining, leaveAlone)
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

// sayGoodbye ends the node's own lease, if Redis was told of all sessions gone. Otherwise the
// other sessions end when the lease runs out.
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

// release takes a session off this node. It reports whether this call did so.
func (n *Node) release(s *Session, reason Reason, left leave) bool {
	if !s.finish(reason, left) {
		return false
	}
	n.mu.Lock()
	if n.sessions.Get(s.id) == s {
		n.sessions.Delete(s.id)
		n.noteLost(s.claim(), superseded) // an earlier registration may be answered later
	}
	n.mu.Unlock()
	s.timer.Remove()
	n.stats.ended(reason)
	if left != leaveAlone {
		n.leave(s.claim(), s.meta, left)
	}
	return true
}

// protect calls a function of the user. It turns a panic, and runtime.Goexit, into an error. The call
// has a goroutine of its own, because nothing stops runtime.Goexit.
func (n *Node) protect(what string, f func() error) (err error) {
	fault := "called runtime.Goexit"
	var call sync.WaitGroup
	call.Go(func() {
		defer func() {
			if value := recover(); value != nil {
				fault = fmt.Sprint("panicked: ", value)
			}
			if fault != "" {
				n.stats.panics.Add(1)
				n.cfg.Logger.Error("fleet: a function of the program has failed", "function", what, "fault", fault, "stack", string(debug.Stack()))
				err = fmt.Errorf("fleet: %s has %s", what, fault)
			}
		}()
		err = f()
		fault = ""
	})
	call.Wait()
	return err
}

func claimsOf(sessions []*Session) []claim {
	claims := make([]claim, len(sessions))
	for i, s := range sessions {
		claims[i] = s.claim()
	}
	return claims
}
