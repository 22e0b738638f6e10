package keepalive

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/internal/shrink"
	"github.com/heartwheel-go/heartwheel/pool"
)

// Room says how many connections there may be.
type Room struct {
	// MaxConns is how many connections are kept. Zero means any number. Without descriptors,
	// accepts fail, and a gnet engine ends: the function [MaxConns] returns a safe number.
	MaxConns int

	// Full says what happens to one more. The zero value is FullReject.
	Full pool.Full

	// MinIdle is how long a connection must have been silent to be evicted. Zero means a
	// second, or Timeout if shorter.
	MinIdle time.Duration

	// MaxPerKey is how many connections one peer may have, by its Key. One more is refused.
	// Zero means any number.
	MaxPerKey int

	// MaxPerUser is how many connections may have the same key of Guard.SetKey. Zero means MaxPerKey,
	// and any number if that is zero, too.
	MaxPerUser int

	// Key returns the same key for all connections to count together. The default is an IPv4
	// address, or the first half of an IPv6 address. remote is the connection's RemoteAddr:
	// behind a listener for the PROXY protocol, the address of the client and not of the proxy.
	// A connection with an empty key is not limited.
	Key func(remote net.Addr) string

	// Pressure shortens timeouts while something runs out.
	Pressure Pressure
}

// What happens to one connection more than Room.MaxConns.
const (
	// FullReject closes it at once.
	FullReject = pool.Reject

	// FullWait lets the listener's Accept wait for room. On gnet, and for Keeper.Conn, it is FullReject.
	FullWait = pool.Wait

	// FullEvict closes one of the connections with the longest silence in its place, and none that is held. See
	// Guard.SetKey for one more of a user, which may be without Room.MaxConns.
	FullEvict = pool.EvictIdlest
)

func (r *Room) setDefaults(timeout, tick time.Duration) {
	if r.Key == nil {
		r.Key = keyOf
	}
	r.Pressure.setDefaults(timeout, tick)
}

func (r Room) check(cfg Config) error {
	switch {
	case r.Full < FullReject || r.Full > FullEvict:
		return wrong("Room.Full %d, must be %d to %d", r.Full, FullReject, FullEvict)
	case r.Full == FullWait && r.MaxConns == 0:
		return wrong("Room.Full %v without Room.MaxConns", r.Full)
	case r.Full == FullEvict && r.MaxConns == 0 && r.MaxPerUser == 0:
		return wrong("Room.Full %v without Room.MaxConns or Room.MaxPerUser", r.Full)
	case r.Full != FullEvict && r.MinIdle > 0:
		return wrong("Room.MinIdle %v is for Room.Full %v, not for %v", r.MinIdle, FullEvict, r.Full)
	}
	return errors.Join(
		within("Room.MaxConns", r.MaxConns, math.MaxInt),
		notNegative("Room.MinIdle", r.MinIdle),
		within("Room.MaxPerKey", r.MaxPerKey, math.MaxInt),
		within("Room.MaxPerUser", r.MaxPerUser, math.MaxInt),
		r.Pressure.check(cfg),
	)
}

// evictIdle returns what MinIdle means, or 0 if nobody is evicted.
func (r Room) evictIdle(timeout time.Duration) time.Duration {
	if r.Full != FullEvict {
		return 0
	}
	return cmp.Or(r.MinIdle, min(time.Second, timeout))
}

// Pressure shortens timeouts as some resource runs out: the idlest make room in time. Timeouts
// stay as they are up to Low, shrink in proportion between Low and High, and are down to
// Timeout from High on.
type Pressure struct {
	// Used, if not nil, returns how much of the resource is in use, from 0 to 1. It is called
	// at most once a second, perhaps concurrently. Less than 0, and
	// NaN, count as 0; more than 1 counts as 1.
	Used func() float64

	// Low and High are the bounds, 0 < Low < High <= 1. Zero means 0.85 and 0.95, as in the
	// example of Envoy's overload manager.
	Low, High float64

	// Timeout is what Config.Timeout becomes under full pressure; a timeout of a connection's
	// own becomes shorter in proportion. If it is not zero, a shortage of descriptors is
	// pressure, too. Zero means a quarter of Config.Timeout if Used is set, and otherwise no
	// pressure at all.
	Timeout time.Duration
}

func (p *Pressure) setDefaults(timeout, tick time.Duration) {
	p.Low, p.High = cmp.Or(p.Low, 0.85), cmp.Or(p.High, 0.95)
	if p.Used != nil && p.Timeout == 0 {
		p.Timeout = max(tick, timeout/4)
	}
}

func (p Pressure) check(cfg Config) error {
	switch {
	case !(0 < p.Low && p.Low < p.High && p.High <= 1): // or one is not a number
		return wrong("Room.Pressure.Low %v and Room.Pressure.High %v, must be 0 < Low < High <= 1", p.Low, p.High)
	case p.Timeout > cfg.Timeout:
		return wrong("Room.Pressure.Timeout %v is longer than Timeout %v", p.Timeout, cfg.Timeout)
	case p.Timeout > 0 && p.Timeout < cfg.Tick:
		return wrong("Room.Pressure.Timeout %v is shorter than Tick %v", p.Timeout, cfg.Tick)
	}
	return notNegative("Room.Pressure.Timeout", p.Timeout)
}

// reduction returns how far timeouts are reduced for a share in use: 0 is the full timeout, 1
// the shortest.
func (p Pressure) reduction(used float64) float64 {
	switch {
	case used >= p.High:
		return 1
	case used > p.Low:
		return (used - p.Low) / (p.High - p.Low)
	}
	return 0
}

// gauge is the pressure measured last.
type gauge struct {
	next atomic.Int64 // when to measure again, by the wheel's time
	bits atomic.Uint64
}

// pressure returns how much timeouts are shortened: 0 not at all, 1 as much as can be. It
// measures once a second at most.
func (k *Keeper) pressure(p *policy, now time.Duration) float64 {
	if p.Room.Pressure.Timeout == 0 {
		return 0
	}
	if next := k.gauge.next.Load(); int64(now) >= next && k.gauge.next.CompareAndSwap(next, int64(now+time.Second)) {
		k.gauge.bits.Store(math.Float64bits(k.measure(p.Room.Pressure)))
	}
	return math.Float64frombits(k.gauge.bits.Load())
}

func (k *Keeper) measure(p Pressure) float64 {
	used := 0.0
	if p.Used != nil {
		k.call("Room.Pressure.Used", func() { used = p.Used() })
	}
	reduction := p.reduction(used)
	if descriptors, ok := rlimit.Used(); ok {
		reduction = max(reduction, p.reduction(descriptors))
	}
	return reduction
}

// shares counts the connections of each key, up to a limit: one address, or one user, can't
// have all the room there is. A key is forgotten with its last connection. The zero shares is
// empty and ready to use. It must not be copied.
//
// A connection counts for its address, or for a key of SetKey: it has one member, which changes with mu held only, see
// Guard.member. So two changes at the same time leave no count behind. The empty address has no limit, and a nil member: remove accepts
// that. A touch needs none of this.
type shares struct {
	mu        sync.Mutex                  // no function of the user is called with it
	addresses shrink.Map[string, *member] // those with connections, and no others
	groups    shrink.Map[string, *group]  // the same for the keys of SetKey: a user may be named like an address
}

// take counts a connection for an address. ok is false if the address has most connections already. Only
// the first connection of an address allocates memory. The key is kept until its last connection has
// left: a part of a much longer string keeps all of the string. s.mu must be held.
func (s *shares) take(address string, most int) (taken *member, ok bool) {
	if address == "" {
		return nil, true
	}
	if most <= 0 {
		return nil, false
	}
	taken = s.addresses.Get(address)
	if taken == nil {
		taken = &member{address: address}
		s.addresses.Set(address, taken)
	}
	if taken.conns >= most {
		return nil, false
	}
	taken.conns++
	return taken, true
}

// leave takes a connection off the count, as remove.
func (s *shares) leave(m *member) {
	if m == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(m)
}

// countAddress makes the connection count for its address. A connection with a key of SetKey keeps that, and
// counts for the address after it.
func (s *shares) countAddress(g *Guard, address string, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m := g.member(); {
	case m != nil && m.group != nil:
		m.address = address
		return nil
	case m != nil && m.address == address: // it could be refused for itself
		return nil
	}
	return s.toAddress(g, address, most)
}

// toAddress makes the connection count for an address, in place of what it has counted for. s.mu must be held.
func (s *shares) toAddress(g *Guard, address string, most int) error {
	taken, ok := s.take(address, most)
	if !ok {
		return errPerKey
	}
	before, ok := g.countFor(taken)
	if !ok {
		s.remove(taken)
		return ErrNotGuarded
	}
	s.remove(before)
	return nil
}

// networkBits is the part of an IPv6 address that belongs to one customer. A provider gives
// each customer a /64 at least (RFC 6177, RIPE-690), with as many addresses as they like.
const networkBits = 64

// keyOf returns what connections from addr are counted by, unless Room.Key says otherwise: an
// IPv4 address whole, as "192.0.2.1", also if it is mapped into IPv6, and the /64 of an IPv6
// address, as "2001:db8:1:2::/64". The port and the zone are left out.
//
// The key of an address of a foreign type comes from its String, if String gives an IP address
// and a port. Everything else has the empty key, without a limit: a Unix socket, a pipe, a name
// instead of an address, nil, a nil pointer, and an address with a panicking String.
//
// Different clients may share a key: behind one IPv4 address, behind a NAT64 with all of them
// in one prefix (as 64:ff9b::/96), and on a link (fe80::/64). And one client may have several
// keys: 256 with a /56, and 65,536 with a /48.
func keyOf(addr net.Addr) string {
	ip := ipOf(addr).Unmap()
	if !ip.IsValid() {
		return ""
	}
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, networkBits).Masked().String()
}

// ipOf returns the IP address in addr, or the zero Addr.
func ipOf(addr net.Addr) netip.Addr {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr() // also of a nil pointer
	case *net.UDPAddr:
		return a.AddrPort().Addr()
	case *net.IPAddr:
		if a == nil {
			return netip.Addr{}
		}
		ip, _ := netip.AddrFromSlice(a.IP)
		return ip
	case *net.UnixAddr:
		return netip.Addr{} // the client chose its text, perhaps "192.0.2.1:80"
	}
	host, _, _ := net.SplitHostPort(textOf(addr)) // or "", no address
	ip, _ := netip.ParseAddr(host)
	return ip
}

// textOf returns addr as text, or nothing if addr is nil or its String panics, as it often
// does for a nil pointer: a server must not end because of an address.
func textOf(addr net.Addr) (text string) {
	defer func() { _ = recover() }()
	return addr.String()
}

// MaxConns returns for how many connections this process has descriptors, for Room.MaxConns. It
// takes the limit on descriptors in force (ulimit -n), less the open ones, less a reserve, and
// less some to spare: 64, or a 32nd of all if that is more. They are for connections that are
// refused, or have their farewell, and for files.
//
// reserve is how many more descriptors the program will open: one for each listener, file and
// connection to others. With gnet, each event loop takes three, and only gnet.WithReusePort bounds
// the connections accepted and not refused yet. Call MaxConns before there are connections.
//
// MaxConns returns 0, any number of connections, if there is no limit, as on Windows. If there is
// no room for a single one, it returns [ErrArgument] with the figures.
func MaxConns(reserve int) (int, error) {
	if reserve < 0 {
		return 0, wrong("reserve %d, must not be negative", reserve)
	}
	open := rlimit.Open()
	limit, room, spare, ok := rlimit.Room(reserve, open)
	if !ok || limit == math.MaxInt {
		return 0, nil
	}
	if room < 1 {
		return 0, fmt.Errorf("%w: reserve %d: the process may have %d descriptors, of which %d are open and %d to spare: none is left for connections",
			ErrArgument, reserve, limit, open, spare)
	}
	return room, nil
}
