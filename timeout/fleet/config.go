package fleet

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"strings"
	"time"
	"unicode/utf8"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	defaultPrefix    = "fleet"
	defaultSlots     = 16
	defaultLease     = 90 * time.Second
	defaultLongLease = 10 * time.Minute // Lease with NodeLease
	defaultJitter    = 0.15
	defaultMaxExpire = 0.6
	defaultSweep     = 500 * time.Millisecond
	defaultCalls     = 16

	maxSlots  = 1024
	maxPrefix = 100
	maxNode   = 200
	maxID     = 512
	maxMeta   = 4096
	minLease  = 300 * time.Millisecond
	maxLease  = 7 * 24 * time.Hour
	maxCalls  = tellBatch / 2 // as many at least wait to be told, where there are more
	maxJitter = 0.5           // with more, some renewals come in less than half of Renew
)

// Config is what a node can be told. Zero means the default of each field. All nodes of a fleet
// need the same Prefix and Slots, and the same Lease, NodeLease and Renew but while these are being
// changed. A node that is only to ask, with Lookup, LookupAll, Count and Kick, needs no more than
// Redis or URL, Node, and that Prefix; and those Slots, where it may be the first.
type Config struct {
	// Redis is a server or Cluster, 7.0 or newer: a *redis.Client or *redis.ClusterClient of go-redis,
	// made with MaxRetries -1 and ContextTimeoutEnabled, without which Timeout means nothing. It
	// stays the caller's to close. URL is for those who have none. One of both is needed.
	// README.md lists the commands for a Redis user with few rights.
	Redis goredis.UniversalClient
	URL   string

	// Node is the name by which sessions say where they are, such as the address at which
	// other nodes reach this one: at most 200 bytes. No two that run may have the same. It is
	// needed.
	Node string

	// Prefix is what all keys and channels begin with: at most 100 bytes, without braces.
	// Empty means "fleet".
	Prefix string

	// Keeper guards the connections that are registered, of package net or of gnet: a session
	// ends when its connection is closed, whoever closes it and why. Who wants a session to wait
	// for its client calls Session.Detach before that, such as in the Keeper's OnIdle. Close the
	// node first: when the Keeper is closed, sessions end. Nil means that the program says when
	// connections end, with Session.Close.
	Keeper *keepalive.Keeper

	// Slots are the parts in which sessions are kept: a power of two up to 1024. The first node
	// decides for ever, and another number is an error. Zero means what it has decided, or 16. More
	// are for Clusters of many servers: each costs some 15us of Redis whenever a node looks for
	// what has ended.
	Slots int

	// Lease is how long a session outlives its node: between Lease less Renew and Lease after a
	// node has died, its sessions end, and so do those that a node could not extend for as long.
	// Zero means 90s, or 10m with NodeLease. It must be from 300ms to a week, and leave room for two
	// renewals, two calls and a sweep: a Redis that was away for less than Renew is not noticed as such.
	Lease time.Duration

	// NodeLease, where it is more than zero, gives each node a lease of its own, which it extends
	// every third of that: between two thirds of NodeLease and NodeLease after a node has died, all
	// of its sessions end, however long Lease is. That is then for what is left over, and sessions
	// are written once in minutes: for millions of them. In exchange, where one node is taken
	// for dead by mistake, all that it has is offline. It must be from 300ms to Lease, and leave room
	// for two of its thirds, two calls and a sweep. Zero means that only sessions have leases.
	NodeLease time.Duration

	// Renew is how often a lease is extended, less Jitter. It has nothing to do with how often
	// clients are heard. Zero means a third of Lease, which says how long it may be.
	Renew time.Duration

	// Jitter is the share of Renew by which each renewal comes earlier at random, so that those
	// that came together don't stay together. Zero means 0.15, negative means none; at most 0.5.
	Jitter float64

	// Resume is how long a session that was detached, by Session.Detach or Node.Drain, waits to
	// be registered again before it ends. Zero means Lease, or with NodeLease 90s where that is
	// less; at most a week.
	Resume time.Duration

	// Timeout is how long a call to Redis may take, from 1ms to what Lease and NodeLease leave room
	// for. Zero means a sixth of Renew, or of a third of NodeLease where that is less, but not more
	// than 3s. With more than these, less Sweep, one server of a Cluster that hangs has ends wait on
	// all of them.
	Timeout time.Duration

	// Sweep is how often a node looks for sessions that have ended. Zero means 500ms, or a
	// sixth of Renew or of a third of NodeLease where that is less. It must be from 1ms to half of
	// these.
	Sweep time.Duration

	// MaxExpire is up to which share of a slot's sessions may expire within a lease, where 16 or more
	// of them would at once. With more, nothing does for another Lease, and there is a warning:
	// something may be wrong with the ways to Redis. Those that were detached don't count. With
	// NodeLease the same goes for nodes, where there are two or more. Zero means 0.6; negative means
	// that all may.
	MaxExpire float64

	// Calls is how many of OnOffline run at the same time. Zero means 16; at most 256.
	Calls int

	// Outlive has the node go on serving sessions that it could not extend for a lease, theirs or its
	// own, and closes those that turn out to be somebody else's when Redis is back. Without it the node
	// closes them: nobody is served by two nodes for longer than a message takes, see Session.Alive,
	// and Redis that is away for longer than Lease costs all connections.
	Outlive bool

	// OnOnline is told of each registration that this node makes, before Register returns, or soon
	// where the node has registered the session again, see Online.Again. It must not block for long.
	OnOnline func(Online)

	// OnOffline is told of the end of a session, at least once, by one of the nodes that have it;
	// an error has it told again, after 1s, 2s and so on up to a minute. Where its context ends
	// first (after half a minute), another node may be told. One node at least needs it: where
	// none has, the ends of sessions are kept for ever.
	OnOffline func(context.Context, Offline) error

	// OnEnd is told that this node takes a session from its connection, and why, before it closes
	// that: time for a last word in its protocol. The reasons are ReasonMoved, ReasonKicked,
	// ReasonExpired, ReasonLost and ReasonDraining. The connection is closed when it returns, or after a
	// second, or with ReasonLost after a hundredth of the lease, or of the node's, where that is less;
	// where very many are taken at once, perhaps even before. It is not told of Session.Close or
	// Detach, nor where the connection was closed by others.
	OnEnd func(*Session, Reason)

	// Logger gets a line where something is wrong. Nil means slog's default.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	if c.NodeLease != 0 {
		c.Lease = cmp.Or(c.Lease, defaultLongLease)
		c.Resume = cmp.Or(c.Resume, min(c.Lease, defaultLease))
	}
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.Renew = cmp.Or(c.Renew, c.Lease/3)
	c.Jitter = max(cmp.Or(c.Jitter, defaultJitter), 0)
	c.Resume = cmp.Or(c.Resume, c.Lease)
	c.Timeout = cmp.Or(c.Timeout, min(c.shortest()/6, 3*time.Second))
	c.Sweep = cmp.Or(c.Sweep, min(c.shortest()/6, defaultSweep))
	c.MaxExpire = cmp.Or(c.MaxExpire, defaultMaxExpire)
	c.Calls = cmp.Or(c.Calls, defaultCalls)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// beat is how often a node extends its own lease, where it has one.
func (c Config) beat() time.Duration { return c.NodeLease / 3 }

// shortest is how often at least something is extended: who has not looked for longer must not
// take anything for dead.
func (c Config) shortest() time.Duration {
	if c.NodeLease > 0 {
		return min(c.Renew, c.beat())
	}
	return c.Renew
}

// rules are what scripts go by, see head.lua.
func (c Config) rules() string {
	var kept []byte
	for _, d := range []time.Duration{c.Lease, c.Renew, c.NodeLease, c.shortest()} {
		kept = binary.BigEndian.AppendUint32(kept, uint32(millis(d)))
	}
	return string(kept)
}

// Validate returns the error that New would return for this config, but for what is wrong with
// URL or with the server.
func (c Config) Validate() error { return c.withDefaults().check() }

// check looks at a Config that has its defaults.
func (c Config) check() error {
	switch {
	case (c.Redis == nil) == (c.URL == ""):
		return fmt.Errorf("%w: Redis and URL, must be one of them and not both", ErrArgument)
	case c.Node == "" || len(c.Node) > maxNode || !utf8.ValidString(c.Node):
		return fmt.Errorf("%w: Node %.220q, must be from 1 to %d bytes of UTF-8", ErrArgument, c.Node, maxNode)
	case len(c.Prefix) > maxPrefix || strings.ContainsAny(c.Prefix, "{}"):
		return fmt.Errorf("%w: Prefix %.120q, must be at most %d bytes without braces", ErrArgument, c.Prefix, maxPrefix)
	case c.Jitter > maxJitter || math.IsNaN(c.Jitter):
		return fmt.Errorf("%w: Jitter %v, must be at most %v", ErrArgument, c.Jitter, maxJitter)
	case c.MaxExpire > 1 || math.IsNaN(c.MaxExpire):
		return fmt.Errorf("%w: MaxExpire %v, must be at most 1", ErrArgument, c.MaxExpire)
	case c.Calls < 1 || c.Calls > maxCalls:
		return fmt.Errorf("%w: Calls %d, must be from 1 to %d", ErrArgument, c.Calls, maxCalls)
	}
	if c.Slots != 0 {
		if err := checkSlots(c.Slots); err != nil {
			return err
		}
	}
	return c.checkTimes()
}

func (c Config) checkTimes() error {
	if c.Lease < minLease || c.Lease > maxLease {
		return fmt.Errorf("%w: Lease %v, must be from %v to %v", ErrArgument, c.Lease, minLease, maxLease)
	}
	if c.NodeLease != 0 && (c.NodeLease < minLease || c.NodeLease > c.Lease) {
		return fmt.Errorf("%w: NodeLease %v, must be from %v to Lease, %v", ErrArgument, c.NodeLease, minLease, c.Lease)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		limit time.Duration
	}{
		{"Renew", c.Renew, c.Lease},
		{"Timeout", c.Timeout, c.Lease},
		{"Sweep", c.Sweep, c.shortest() / 2}, // or each look finds a gap, and nothing ever ends
		{"Resume", c.Resume, maxLease},
	} {
		if d.value < time.Millisecond || d.value > d.limit {
			return fmt.Errorf("%w: %s %v, must be from 1ms to %v", ErrArgument, d.name, d.value, d.limit)
		}
	}
	if least := 2*c.Renew + 2*c.Timeout + c.Sweep; c.Lease < least {
		return fmt.Errorf("%w: Lease %v, must be at least 2 Renew (%v), 2 Timeout (%v) and Sweep (%v), which is %v",
			ErrArgument, c.Lease, c.Renew, c.Timeout, c.Sweep, least)
	}
	if least := 2*c.beat() + 2*c.Timeout + c.Sweep; c.NodeLease != 0 && c.NodeLease < least {
		return fmt.Errorf("%w: NodeLease %v, must be at least two thirds of it, 2 Timeout (%v) and Sweep (%v), which is %v",
			ErrArgument, c.NodeLease, c.Timeout, c.Sweep, least)
	}
	return nil
}

func checkSlots(slots int) error {
	if slots < 1 || slots > maxSlots || bits.OnesCount(uint(slots)) != 1 {
		return fmt.Errorf("%w: Slots %d, must be a power of two from 1 to %d", ErrArgument, slots, maxSlots)
	}
	return nil
}

func checkSession(id string, meta []byte) error {
	if id == "" || len(id) > maxID || !utf8.ValidString(id) {
		return fmt.Errorf("%w: session %.520q, must be from 1 to %d bytes of UTF-8", ErrArgument, id, maxID)
	}
	if len(meta) > maxMeta {
		return fmt.Errorf("%w: meta of %d bytes, must be at most %d", ErrArgument, len(meta), maxMeta)
	}
	return nil
}
