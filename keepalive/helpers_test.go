package keepalive

import (
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/socket"
	"github.com/heartwheel-go/heartwheel/internal/tcpsocket"
)

const (
	maxHop    = time.Minute             // how soon a change of the policy reaches a connection
	maxRounds = 3                       // how often a connection is given more time because the program is slow
	lastWord  = 1500 * time.Millisecond // of an exchange
)

// wouldClose returns how many connections a timeout of that share, or the next one below, would
// have closed.
func wouldClose(s Stats, share float64) (n uint64) {
	for _, silence := range s.Silences {
		if silence.Share > share {
			break
		}
		n = silence.Count
	}
	return n
}

// roundTrip is the time to the last answer to a probe.
func roundTrip(conn any) time.Duration {
	info, _ := Of(conn).Info()
	return info.RoundTrip
}

// control has f look at the socket of a connection.
func control(c net.Conn, f func(fd uintptr)) error {
	raw, _, err := socket.Of(c, nil)
	if err != nil {
		return err
	}
	return raw.Control(f)
}

// tells reports whether the socket of a connection knows when bytes last arrived.
func tells(c net.Conn) (yes bool) {
	_ = control(c, func(fd uintptr) { yes = tcpsocket.Tells(fd) })
	return yes
}

// guardOf guards a connection with the address of its peer.
func guardOf(k *Keeper, remote net.Addr) (*Guard, error) {
	inner, _ := net.Pipe()
	c := &conn{inner: inner, keeper: k, guard: new(Guard), noted: newNoted()}
	return c.guard, k.admit(c.guard, c, c, remote)
}

// taken is take without the lock.
func (s *shares) taken(key string, most int) (*member, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(key, most)
}

// keys returns the number of keys with connections.
func (s *shares) keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addresses.Len()
}

// quiet reports whether nobody has touched the connection since the last decision on it.
func (g *Guard) quiet() bool {
	_, quiet := g.timer.Touched()
	return quiet
}
