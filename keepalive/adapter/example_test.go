//go:build unix

package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// udpServer keeps a session for each peer. One goroutine, its loop, does all the work: it reads
// the socket, handles datagrams, and decides. Before each decision it reads what waits.
type udpServer struct {
	socket   *net.UDPConn
	raw      syscall.RawConn // the same
	keeper   *keepalive.Keeper
	handle   func(s *session, datagram []byte) (answer []byte, stay bool)
	sessions map[netip.AddrPort]*session // for the loop only
	running  sync.WaitGroup

	mu     sync.Mutex
	work   []func()
	more   *sync.Cond
	closed bool
}

// session is a connection as the program knows it, and its adapter.
type session struct {
	server *udpServer
	peer   netip.AddrPort
	guard  keepalive.Guard
}

var _ adapter.Adapter = (*session)(nil)

// serveUDP starts a server on loopback.
func serveUDP(k *keepalive.Keeper, handle func(s *session, datagram []byte) (answer []byte, stay bool)) (*udpServer, error) {
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		return nil, err
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	u := &udpServer{socket: socket, raw: raw, keeper: k, handle: handle, sessions: make(map[netip.AddrPort]*session)}
	u.more = sync.NewCond(&u.mu)
	u.running.Add(2)
	go u.watch()
	go u.loop()
	return u, nil
}

// Close ends all sessions, and waits for the loop.
func (u *udpServer) Close() error {
	err := u.socket.Close()
	u.running.Wait()
	return err
}

// watch wakes the loop when there is something to read.
func (u *udpServer) watch() {
	defer u.running.Done()
	for {
		err := u.raw.Read(func(fd uintptr) (readable bool) {
			_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			return !errors.Is(err, unix.EAGAIN)
		})
		if err != nil {
			u.push(u.shut)
			return
		}
		done := make(chan struct{})
		u.push(func() { defer close(done); u.receive() })
		<-done
	}
}

// push has the loop do something. It reports false after the end of the loop.
func (u *udpServer) push(f func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.work = append(u.work, f)
	u.more.Signal()
	return !u.closed
}

func (u *udpServer) next() (f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.work) == 0 {
		u.more.Wait()
	}
	f, u.work = u.work[0], u.work[1:]
	return f
}

// loop begins anew if a function of the program calls runtime.Goexit.
func (u *udpServer) loop() {
	defer func() {
		if u.closed {
			u.running.Done()
		} else {
			go u.loop()
		}
	}()
	for !u.closed {
		u.next()()
	}
}

// shut is the last thing in the loop.
func (u *udpServer) shut() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	for _, s := range u.sessions {
		s.close()
	}
}

// receive handles all datagrams in the socket.
func (u *udpServer) receive() {
	buf := make([]byte, 64<<10)
	for {
		var n int
		var from unix.Sockaddr
		var err error
		if u.raw.Control(func(fd uintptr) { n, from, err = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT) }) != nil {
			return // closed
		}
		peer, ok := from.(*unix.SockaddrInet4)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || !ok:
			return
		default:
			u.received(netip.AddrPortFrom(netip.AddrFrom4(peer.Addr), uint16(peer.Port)), buf[:n])
		}
	}
}

func (u *udpServer) received(peer netip.AddrPort, datagram []byte) {
	s := u.sessions[peer]
	if s == nil {
		s = &session{server: u, peer: peer}
		err := adapter.Guard(u.keeper, &s.guard, s, s, net.UDPAddrFromAddrPort(peer), false)
		if _, refused := adapter.IsRefused(err); refused {
			return
		}
		u.sessions[peer] = s
	}
	if adapter.Reads(&s.guard) {
		adapter.Heard(&s.guard)
	}
	answer, stay := u.handle(s, datagram)
	s.write(answer)
	if !stay {
		s.close()
	}
}

func (s *session) write(datagram []byte) {
	if len(datagram) == 0 {
		return
	}
	_, err := s.server.socket.WriteToUDPAddrPort(datagram, s.peer)
	if err == nil && adapter.Writes(&s.guard) {
		adapter.Heard(&s.guard)
	}
}

// close is the program's.
func (s *session) close() {
	delete(s.server.sessions, s.peer)
	if adapter.Release(&s.guard) {
		adapter.Closed(&s.guard, keepalive.ReasonLocal)
	}
}

// SafeContext is keepalive.Of's way to the guard.
func (s *session) SafeContext() any { return &s.guard }

// Due has the loop decide behind the datagrams in the socket.
func (s *session) Due(g *keepalive.Guard) {
	s.server.push(func() {
		s.server.receive()
		adapter.Decide(g)
	})
}

func (s *session) Do(ctx context.Context, _ *keepalive.Guard, f func()) error {
	done := make(chan struct{})
	if !s.server.push(func() { defer close(done); f() }) {
		return net.ErrClosed
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) Control(*keepalive.Guard, func(fd uintptr)) error { return errors.ErrUnsupported }

func (s *session) Peer(*keepalive.Guard) net.Addr { return net.UDPAddrFromAddrPort(s.peer) }

// End forgets the session: a datagram is all that UDP has for a farewell.
func (s *session) End(g *keepalive.Guard, farewell []byte, _ keepalive.CloseMode, _ time.Duration) {
	s.write(farewell)
	delete(s.server.sessions, s.peer)
	adapter.Closed(g, adapter.Reason(g))
}

// A whole adapter: sessions over UDP, each with a deadline.
func Example() {
	ended := make(chan keepalive.Reason)
	k, err := keepalive.New(keepalive.Config{
		Timeout: 100 * time.Millisecond,
		OnClose: func(_ any, reason keepalive.Reason) { ended <- reason },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	server, err := serveUDP(k, func(_ *session, datagram []byte) (answer []byte, stay bool) { return datagram, true })
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	client, err := net.Dial("udp", server.socket.LocalAddr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Fprint(client, "hello")
	buf := make([]byte, 100)
	n, err := client.Read(buf)
	fmt.Println(string(buf[:n]), err)
	fmt.Println(<-ended)
	// Output:
	// hello <nil>
	// keepalive: idle timeout
}
