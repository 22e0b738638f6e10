package keepalive

import (
	"cmp"
	"errors"
	"math"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/pool"
)

// Room says how many connections there may be.
type Room struct {
	// MaxConns is how many connections are kept. Zero means any number. Without descriptors,
	// accepts fail, and a gnet engine ends: the function [MaxConns] returns a safe number.
	MaxConns int

	// Full says what happens to one more: pool.Reject closes it at once, pool.Wait has the
	// listener's Accept wait for room (and is Reject on gnet and for Keeper.Conn), and
	// pool.EvictIdlest closes one of the connections with the longest silence, and none that is
	// held.
	Full pool.Full

	// MinIdle is how long a connection must have been silent to be evicted. Zero means a
	// second, or Timeout if shorter.
	MinIdle time.Duration

	// MaxPerKey is how many connections one peer may have, by its Key. One more is closed at
	// once. Zero means any number.
	MaxPerKey int

	// Key returns the same key for all connections to count together. The default is an IPv4
	// address, or the first half of an IPv6 address. remote is the connection's RemoteAddr:
	// behind a listener for the PROXY protocol, the address of the client and not of the proxy.
	// A connection with an empty key is not limited.
	Key func(remote net.Addr) string

	// Pressure shortens timeouts while something runs out.
	Pressure Pressure
}

func (r *Room) setDefaults(timeout, tick time.Duration) {
	if r.Key == nil {
		r.Key = keyOf
	}
	r.Pressure.setDefaults(timeout, tick)
}

func (r Room) check(cfg Config) error {
	switch {
	case r.Full < pool.Reject || r.Full > pool.EvictIdlest:
		return wrong("Room.Full %d, must be %d to %d", r.Full, pool.Reject, pool.EvictIdlest)
	case r.Full != pool.Reject && r.MaxConns == 0:
		return wrong("Room.Full %v without Room.MaxConns", r.Full)
	case r.Full != pool.EvictIdlest && r.MinIdle > 0:
		return wrong("Room.MinIdle %v is for Room.Full %v, not for %v", r.MinIdle, pool.EvictIdlest, r.Full)
	}
	return errors.Join(
		within("Room.MaxConns", r.MaxConns, math.MaxInt),
		notNegative("Room.MinIdle", r.MinIdle),
		within("Room.MaxPerKey", r.MaxPerKey, math.MaxInt),
		r.Pressure.check(cfg),
	)
}

// evictIdle returns what MinIdle means, or 0 if nobody is evicted.
func (r Room) evictIdle(timeout time.Duration) time.Duration {
	if r.Full != pool.EvictIdlest {
		return 0
	}
	return cmp.Or(r.MinIdle, min(time.Second, timeout))
}
