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
	maxCalls  = tellBatch / 2 // at least as many ends wait to be told, if there are more
	maxJitter = 0.5           // with more, some renewals come in less than half of Renew
)

// Config configures a node. The zero value of each field means its default. All nodes of a
// fleet need the same Prefix and Slots. They also need the same Lease, NodeLease and Renew,
// except while these are being changed. A node that only calls Lookup, LookupAll, Count and
// Kick needs Node and the fleet's Prefix. If it may be the first node, it needs the fleet's Slots
// as well.
type Config struct {
	// Node is the node's name in the records of its sessions, such as the address at which
	// other nodes reach it: at most 200 bytes. No two running nodes may have the same name.
	// Node is needed.
	Node string

	// Prefix begins the names of all keys and channels: at most 100 bytes, without braces.
	// Empty means "fleet".
	Prefix string

	// Keeper guards the registered connections, of package net or of gnet. A session ends when
	// its connection is closed. But if the Keeper's Drain or Shed closes it, the session is detached. To
	// keep a session waiting for its client after another end, call Session.Detach before that,
	// such as in the Keeper's OnIdle. Close the node before the Keeper: closing the Keeper ends
	// sessions. Nil means that the program reports the end of a connection with Session.Close.
	Keeper *keepalive.Keeper

	// Slots is the number of parts of the fleet's data: a power of two up to 1024. The
	// first node decides it for ever, and another number is an error. Zero means the number
	// already decided, or 16. Clusters of many servers need more. Each slot costs some 15us of
	// Redis whenever a node looks for ended sessions.
	Slots int

	// Lease is how long a session outlives its node. After a node has died, its sessions end
	// within Lease, and no sooner than Lease less Renew. If a living node could not extend a
	// session for as long, it ends, too. Zero means 90s, or 10m with NodeLease. Lease must be from
	// 300ms to a week, and leave room for two renewals, two calls and a sweep. A Redis outage
	// shorter than Renew is not noticed as such.
	Lease time.Duration

	// NodeLease, if more than zero, gives each node a lease of its own. The node extends it
	// every third of NodeLease. After a node has died, all of its sessions end within
	// NodeLease, and no sooner than two thirds of it, however long Lease is. Lease is then for
	// leftovers, and a session is written only once in minutes. This is for millions of
	// sessions. In exchange, if one node is taken for dead by mistake, all of its sessions are
	// offline. NodeLease must be from 300ms to Lease, and leave room for two of its thirds, two
	// calls and a sweep. Zero means none: only sessions have leases.
	NodeLease time.Duration

	// Renew is the interval between extensions of a lease, less Jitter. It does not depend on
	// how often clients are heard. Zero means a third of Lease; Lease also sets the upper
	// limit.
	Renew time.Duration

	// Jitter is a share of Renew: each renewal comes earlier at random, by up to that share. It
	// spreads renewals begun together. Zero means 0.15, negative means none; at most 0.5.
	Jitter float64

	// Resume is how long a session detached by Session.Detach, Node.Drain, or the Keeper's Drain or Shed
	// waits to be registered again before it ends. Zero means Lease; with NodeLease it means the lesser of
	// Lease and 90s. At most a week.
	Resume time.Duration

	// Timeout is how long a call to Redis may take: at least 1ms, and at most the room left by
	// Lease and NodeLease. Zero means a sixth of Renew, or of a third of NodeLease if it is set
	// and the third is shorter, but at most 3s. If Timeout exceeds that Renew, or third of
	// NodeLease, less Sweep, one hung server of a Cluster delays ends on all servers.
	Timeout time.Duration

	// Sweep is the interval between a node's looks for ended sessions. Zero means the shortest of
	// 500ms, a sixth of Renew and, with NodeLease, a sixth of its third. Sweep must be from 1ms
	// to half of Renew and, with NodeLease, to half of its third. While leases are being changed, a
	// node may look more often.
	Sweep time.Duration

	// MaxExpire is the largest share of a slot's sessions that may expire within a lease. It
	// applies when 16 or more would expire at once. Beyond that share, nothing expires for
	// another Lease, and the node logs a warning: something may be wrong with the network to
	// Redis. Detached sessions don't count. With NodeLease the same limit applies to nodes, if
	// there are two or more. Zero means 0.6; negative means no limit.
	MaxExpire float64

	// Calls is how many calls of OnOffline run at the same time. Zero means 16; at most 256.
	Calls int

	// Outlive makes the node go on serving sessions after their lease, or its own, could not be
	// extended in time. When Redis is back, the node closes the sessions taken over by another
	// node meanwhile. Without Outlive the node closes all such sessions. Then no session is
	// served by two nodes for longer than a message takes, see Session.Alive; but a Redis
	// outage longer than Lease costs all connections.
	Outlive bool

	// OnOnline is told of each registration by this node, before Register returns. If
	// the node has registered the session again by itself, OnOnline is told soon after, see
	// Online.Again. It must not block for long.
	OnOnline func(Online)

	// OnOffline is told of the end of a session, at least once, by one of the nodes with an
	// OnOffline. After an error it is told again, after 1s, 2s and so on up to a minute. If
	// its context ends first (after half a minute), another node may be told. At least one node
	// needs it; otherwise the ends of sessions are kept for ever.
	OnOffline func(context.Context, Offline) error

	// OnEnd is told that this node takes a session from its connection, and why, before the
	// node closes the connection: time for a last word in the connection's protocol. The
	// reasons are ReasonMoved, ReasonKicked, ReasonExpired, ReasonLost and ReasonDraining. The
	// connection is closed when OnEnd returns, or after a second. With ReasonLost the limit is
	// a hundredth of NodeLease, or of Lease without NodeLease, but at most a second. If very many
	// sessions are taken at once, the connection may even be closed before OnEnd. OnEnd is not
	// told of Session.Close or Detach, nor of connections closed by others.
	OnEnd func(*Session, Reason)

	// Logger gets a line when something is wrong. Nil means slog's default.
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

// beat returns the interval of a node's beats, or 0 without NodeLease.
func (c Config) beat() time.Duration { return c.NodeLease / 3 }

// shortest is the shortest interval between extensions of anything. If a node has not looked
// for longer, it must take nothing for dead.
func (c Config) shortest() time.Duration {
	if c.NodeLease > 0 {
		return min(c.Renew, c.beat())
	}
	return c.Renew
}

// pings returns the interval of a subscription's pings. So a dead one is noticed long before the next
// renewals find what it missed.
func (c Config) pings() time.Duration {
	return min(max(c.Renew/10, time.Second), 3*time.Second)
}

// rules returns the leases and intervals for the scripts, see head.lua.
func (c Config) rules() string {
	var kept []byte
	for _, d := range []time.Duration{c.Lease, c.Renew, c.NodeLease, c.shortest()} {
		kept = binary.BigEndian.AppendUint32(kept, uint32(millis(d)))
	}
	return string(kept)
}

// Validate returns the error of Open and New for this config, except for errors of the URL, the client
// or the server.
func (c Config) Validate() error { return c.withDefaults().check() }

// check checks a Config with its defaults filled in.
func (c Config) check() error {
	switch {
	case c.Node == "" || len(c.Node) > maxNode || !utf8.ValidString(c.Node):
		return fmt.Errorf("%w: Node %.220q, must be from 1 to %d bytes of UTF-8", ErrArgument, c.Node, maxNode)
	case len(c.Prefix) > maxPrefix || strings.ContainsAny(c.Prefix, "{}"):
		return fmt.Errorf("%w: Prefix %.120q, must be at most %d bytes without braces", ErrArgument, c.Prefix, maxPrefix)
	case c.Jitter > maxJitter || math.IsNaN(c.Jitter):
		return fmt.Errorf("%w: Jitter %v, must be at most %v", ErrArgument, c.Jitter, maxJitter)
	case c.MaxExpire > 1 || math.IsNaN(c.MaxExpire):
		return fmt.Errorf("%w: MaxExpire %v, must be at most 1", ErrArgument, c.MaxExpire)
	case c.Keeper != nil && c.Keeper.Binder() == nil:
		return fmt.Errorf("%w: Keeper, must be nil or one from keepalive.New", ErrArgument)
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
