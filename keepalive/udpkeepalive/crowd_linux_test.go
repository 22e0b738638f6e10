package udpkeepalive

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/internal/udpsocket"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// crowd is a client with very many addresses: one socket sends from all of 127.0.0.0/8.
type crowd struct {
	t      *testing.T
	socket *net.UDPConn
	server *server
	to     netip.AddrPort
	peers  []peer
}

// peer is an address of the crowd. This machine may be too busy for a living peer to be in time.
type peer struct {
	begun   time.Time     // before its last datagram
	longest time.Duration // bounds its silences
}

func newCrowd(t *testing.T, s *server, n int) *crowd {
	socket, err := net.ListenUDP("udp4", nil)
	require.NoError(t, err)
	t.Cleanup(func() { socket.Close() })
	return &crowd{t, socket, s, s.LocalAddr().(*net.UDPAddr).AddrPort(), make([]peer, n)}
}

// address returns the i-th address of the crowd.
func (c *crowd) address(i int) netip.AddrPort {
	port := c.socket.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(1 + i>>16), byte(i >> 8), byte(i)}), port)
}

// send sends a datagram from the i-th address.
func (c *crowd) send(i int, text string) {
	p, begun := &c.peers[i], time.Now()
	info := &unix.Inet4Pktinfo{Spec_dst: c.address(i).Addr().As4()}
	_, _, err := c.socket.WriteMsgUDPAddrPort([]byte(text), unix.PktInfo4(info), c.to)
	require.NoError(c.t, err)
	if !p.begun.IsZero() {
		p.longest = max(p.longest, time.Since(p.begun))
	}
	p.begun = begun
}

// window is how many datagrams may be under way. A socket has room for twice as many.
const window = 100

// say sends a datagram from each of these addresses, and waits until all are read: none is lost.
func (c *crowd) say(from, to int, text string) {
	c.t.Helper()
	for i := from; i < to; i++ {
		c.send(i, text)
		if (i+1-from)%window == 0 || i+1 == to {
			c.await(c.server.hasReadAll)
		}
	}
}

func (c *crowd) await(condition func() bool) {
	c.t.Helper()
	for begun := time.Now(); !condition(); time.Sleep(ms / 10) {
		require.Less(c.t, time.Since(begun), eternal)
	}
}

// server reads datagrams, and calls a function for each.
type server struct {
	*Conn[int]
	keeper *keepalive.Keeper
	ended  ended
}

// all reports whether the sessions of these addresses have ended.
func (e *ended) all(c *crowd, from, to int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := from; i < to; i++ {
		if _, ended := e.at[c.address(i)]; !ended {
			return false
		}
	}
	return true
}

// ended is when the last session of each address ended.
type ended struct {
	mu sync.Mutex
	at map[netip.AddrPort]time.Time
}

func (e *ended) add(conn any, _ keepalive.Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at[conn.(*Session[int]).Peer()] = time.Now()
}

func startServer(t *testing.T, cfg keepalive.Config, handle func(s *Session[int], text string)) *server {
	s := &server{ended: ended{at: make(map[netip.AddrPort]time.Time)}}
	cfg.OnClose = s.ended.add
	k, err := keepalive.New(cfg)
	require.NoError(t, err)
	s.keeper, s.Conn = k, Wrap[int](listen(t, "127.0.0.1:0"), k)
	var reading sync.WaitGroup
	reading.Go(func() {
		for buf := make([]byte, 100); ; {
			n, session, err := s.Read(buf)
			if err != nil {
				return
			}
			handle(session, string(buf[:n]))
		}
	})
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		reading.Wait()
		require.NoError(t, k.Close())
	})
	return s
}

// hasReadAll reports whether the socket is empty.
func (s *server) hasReadAll() (empty bool) {
	_ = s.socket.raw.Control(func(fd uintptr) { empty = udpsocket.Unread(fd) == 0 })
	return empty
}

// beat has the first n addresses beat, round after round, until done.
func (c *crowd) beat(n int, done func() bool) {
	c.t.Helper()
	for begun := time.Now(); !done(); {
		require.Less(c.t, time.Since(begun), 5*eternal)
		c.say(0, n, "beat")
	}
}

// requireLate requires a silence as long as the timeout of each session that has ended.
func (c *crowd) requireLate(timeout time.Duration) {
	c.t.Helper()
	ended := &c.server.ended
	ended.mu.Lock()
	defer ended.mu.Unlock()
	for i, p := range c.peers {
		if at, ok := ended.at[c.address(i)]; ok {
			require.GreaterOrEqual(c.t, max(p.longest, at.Sub(p.begun)), timeout, "a living one was lost")
		}
	}
}

// 20,000 sessions over one socket: each silent one ends, not early, and each living one stays.
func TestTwentyThousandSessions(t *testing.T) {
	t.Parallel()
	const sessions, living, timeout = 20_000, 500, time.Second
	s := startServer(t, keepalive.Config{Timeout: timeout}, func(*Session[int], string) {})
	c := newCrowd(t, s, sessions)
	joined := living
	c.beat(living, func() bool {
		if joined < sessions {
			c.say(joined, joined+living, "hello")
			joined += living
		}
		return joined == sessions && s.ended.all(c, living, sessions)
	})
	c.requireLate(timeout)
	require.GreaterOrEqual(t, s.keeper.Stats().Opened, uint64(sessions))
}

// A flood from 100,000 addresses takes no session of a living peer, and no memory beyond the limits.
func TestSpoofedFlood(t *testing.T) {
	t.Parallel()
	const living, flood, most, timeout = 500, 100_000, 600, time.Second // a socket holds more than 100 datagrams, however slow the loop is
	s := startServer(t, keepalive.Config{
		Timeout: timeout, Activity: keepalive.ActivityManual, FirstMessage: 200 * ms,
		Room: keepalive.Room{MaxConns: most},
	}, func(s *Session[int], text string) {
		if text == "beat" { // it has shown a cookie, say
			keepalive.Touch(s)
		}
	})
	c := newCrowd(t, s, living+flood)
	c.say(0, living, "beat")
	sent, begun := 0, time.Now()
	c.beat(living, func() bool {
		if sent < flood {
			c.say(living+sent, living+sent+flood/20, "spoofed")
			sent += flood / 20
		}
		require.LessOrEqual(t, s.keeper.Len(), most)
		return sent == flood && time.Since(begun) > 2*timeout
	})
	c.peers = c.peers[:living]
	c.requireLate(timeout)
	stats := s.keeper.Stats()
	require.Positive(t, stats.RefusedFull)
	require.Positive(t, stats.Closed[keepalive.ReasonFirstMessage])
}

// The program stops reading for two timeouts, and the heartbeats are too many for the socket: the kernel
// drops most of them. No session of a living peer ends, and then the silent ones do.
func TestSlowProgramWithAFullSocketLosesNobody(t *testing.T) {
	t.Parallel()
	const living, timeout = 1_000, 500 * ms
	var stall atomic.Pointer[chan struct{}]
	s := startServer(t, keepalive.Config{Timeout: timeout}, func(*Session[int], string) {
		if over := stall.Load(); over != nil {
			<-*over
		}
	})
	c := newCrowd(t, s, living)
	c.say(0, living, "beat")
	over, begun := make(chan struct{}), time.Now()
	stall.Store(&over)
	for time.Since(begun) < 2*timeout {
		for i := range living {
			c.send(i, "beat")
		}
		time.Sleep(timeout / 10)
	}
	stall.Store(nil)
	close(over)
	c.await(s.hasReadAll)
	begun = time.Now()
	c.beat(living, func() bool { return time.Since(begun) > 2*timeout })
	require.Positive(t, s.socket.Lost(), "the socket was not full")
	c.requireLate(timeout)
	c.await(func() bool { return s.keeper.Len() == 0 })
}

// A flood fills the socket all the time, and the loop reads slower than it comes. A dead session ends
// all the same: its timeout is doubled, and no more.
func TestDeadSessionEndsUnderAnEndlessFlood(t *testing.T) {
	t.Parallel()
	const timeout = 500 * ms
	s := startServer(t, keepalive.Config{Timeout: timeout}, func(*Session[int], string) { time.Sleep(50 * time.Microsecond) })
	c := newCrowd(t, s, 2)
	c.say(0, 1, "the last word")
	over := make(chan struct{})
	var flooding sync.WaitGroup
	defer flooding.Wait()
	defer close(over)
	flooding.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				c.send(1, "flood")
			}
		}
	})
	c.await(func() bool { return s.ended.all(c, 0, 1) })
	require.Positive(t, s.socket.Lost(), "the socket was not full")
	silent := crowd{t: t, socket: c.socket, server: s, peers: c.peers[:1]}
	silent.requireLate(timeout)
}
