package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

type state uint8

const (
	unopened   state = iota
	connecting       // until the first answer
	live             // sends heartbeats
	silent           // has sent its last
	gone             // closed, or never came to be
)

// conn is one connection: 64 bytes, and a partial answer now and then.
type conn struct {
	fd       int32
	state    state
	goSilent time.Duration // when it is to fall silent, or 0
	sent     time.Duration // right before its last heartbeat was sent
	partial  []byte        // of an answer

	// The cycles from unanswered to next are of the heartbeats without an answer yet.
	unanswered, next uint64
}

func (w *worker) connect(c *conn, i int) error {
	server, err := w.target(i)
	if err != nil {
		return err
	}
	family, target := socketAddr(server)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	c.fd = int32(fd)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if family == unix.AF_INET && server.Addr().IsLoopback() { // as many source addresses as wanted
		// The port is chosen by connect, when the whole address is known.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		if err := unix.Bind(fd, sourceAddr(w.first+i)); err != nil {
			_ = unix.Close(fd)
			return fmt.Errorf("bind: %w", err)
		}
	}
	if err := unix.Connect(fd, target); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		_ = unix.Close(fd)
		return fmt.Errorf("connect: %w", err)
	}
	// Edge-triggered: this one call is enough.
	err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | edge,
		Fd:     int32(i),
	})
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

func socketAddr(addr netip.AddrPort) (family int, sa unix.Sockaddr) {
	if addr.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
}

// perSource is how many connections share a source address. Beyond 14,000 the
// kernel searches long for a free port, and at 28,232 there is none.
const perSource = 5000

// sourceAddr spreads connections over 127.1.0.0/16 and what follows.
func sourceAddr(i int) unix.Sockaddr {
	n := i/perSource + 1
	return &unix.SockaddrInet4{Addr: [4]byte{127, byte(1 + n>>16), byte(n >> 8), byte(n)}}
}

// failed is for a connection without a first answer.
func (w *worker) failed(i int32, c *conn, err error) {
	if c.state == connecting {
		w.waiting--
		_ = unix.Close(int(c.fd))
	}
	c.state = gone
	if w.clients != nil {
		w.clients.TurnedAway(i, w.now(), err)
		return
	}
	if c.goSilent > 0 {
		w.isClosed()
	}
	w.result.failed++
	w.series.count(notOpened, w.now())
	if w.result.firstFailure == nil {
		w.result.firstFailure = err
	}
}

func (w *worker) send(c *conn, line []byte) {
	c.sent = w.now()
	// A line is short and the socket's buffer empty, so it goes out whole. Otherwise the connection is
	// broken; reading will show it.
	if n, err := unix.Write(int(c.fd), line); err != nil || n < len(line) {
		w.result.unsent++
	}
}

// handle takes in events of a connection.
func (w *worker) handle(i int32, events uint32) {
	c := &w.conns[i]
	if c.state == gone {
		return
	}
	if c.state == connecting && c.sent == 0 && events&unix.EPOLLOUT != 0 {
		if code, err := unix.GetsockoptInt(int(c.fd), unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
			w.failed(i, c, fmt.Errorf("connect: %w", unix.Errno(code)))
			return
		}
		w.send(c, w.hello(i))
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		w.read(i, c, events&^unix.EPOLLIN&^unix.EPOLLOUT != 0)
	}
}

// read reads all bytes there are. end says that the end of the stream has come, too.
func (w *worker) read(i int32, c *conn, end bool) {
	for c.state != gone {
		n, err := unix.Read(int(c.fd), w.buf)
		now := w.now()
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil || n == 0:
			w.closed(i, c, now, err)
			return
		default:
			w.answers(i, c, w.buf[:n], now)
			if n < len(w.buf) && !end {
				return // what comes later is another event
			}
		}
	}
}

// answers takes in what the server has said.
func (w *worker) answers(i int32, c *conn, b []byte, now time.Duration) {
	if len(c.partial) > 0 {
		b = append(c.partial, b...)
		c.partial = nil
	}
	for {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			break
		}
		b = rest
		switch {
		case w.clients != nil && w.fleetAnswer(i, c, line, now):
		case bytes.Equal(line, []byte("PONG")) && w.clients == nil:
			w.welcome(c, now)
		case bytes.HasPrefix(line, []byte("PONG ")):
			cycle, err := strconv.ParseUint(string(line[len("PONG "):]), 10, 64)
			if err != nil || cycle != c.unanswered || cycle == c.next {
				w.result.stray++
				continue
			}
			c.unanswered++
			w.series.count(answered, now)
			w.answered(i, cycle, now)
		case bytes.HasPrefix(line, []byte("BYE ")): // the close follows
		case bytes.HasPrefix(line, []byte("ERR ")) && c.state == connecting:
			w.failed(i, c, fmt.Errorf("the server said %q", line))
			return
		default:
			w.result.stray++
		}
	}
	if len(b) > 0 {
		c.partial = bytes.Clone(b)
	}
}

// answered counts how long a heartbeat has waited for its answer, and returns it.
func (w *worker) answered(i int32, cycle uint64, now time.Duration) time.Duration {
	w.pending--
	due := w.beats.due(i, cycle)
	rtt, wait := &w.result.rtt, roundTrip
	if w.probes {
		rtt, wait = &w.result.probing, probeRoundTrip
	}
	rtt[w.line.at(due)].Record(now - due)
	w.series.record(wait, due, now-due)
	return now - due
}

// giveUpWaiting is for the heartbeats of a connection after its last answer. Their waiting counts: to
// leave it out would hide the longest of all.
func (w *worker) giveUpWaiting(i int32, c *conn, now time.Duration) {
	for ; c.unanswered < c.next; c.unanswered++ {
		if w.answered(i, c.unanswered, now) > w.cfg.margin() {
			w.result.unanswered++
		}
	}
}

// welcome is for a connection after its first answer.
func (w *worker) welcome(c *conn, now time.Duration) {
	if c.state != connecting {
		w.result.stray++
		return
	}
	c.state = live
	w.waiting--
	w.result.established++
	w.counters.established.Add(1)
	w.series.count(opened, now)
}

// closed judges a connection closed by the server.
func (w *worker) closed(i int32, c *conn, now time.Duration, err error) {
	if c.state == connecting {
		if err == nil {
			err = errors.New("closed before the first answer")
		}
		w.failed(i, c, err)
		return
	}
	_ = unix.Close(int(c.fd))
	w.counters.closed.Add(1)
	w.giveUpWaiting(i, c, now)
	if w.clients != nil && w.closedWithNode(i, c, now) {
		return
	}
	late := now - c.sent - w.cfg.timeout
	if c.goSilent > 0 {
		w.isClosed()
	}
	if c.state == silent {
		w.series.count(silentGone, now)
	}
	switch {
	case c.goSilent > 0 && (!w.cfg.storm || c.state == silent):
		// Silent since its last heartbeat, even if the next was not due yet.
		w.result.closed++
		w.result.lastClose = now
		if w.result.firstClose == 0 {
			w.result.firstClose = now
		}
		if late < 0 {
			w.result.early++
			w.result.ahead.Record(-late)
			w.series.count(closedEarly, now)
		} else {
			w.result.late.Record(late)
			w.series.count(closedDue, now)
			w.series.record(lateness, now, late)
		}
		if late > w.cfg.margin() {
			w.result.tardy++
		}
	case late >= 0 && w.last > 0: // at the end of the run nobody speaks any more
		w.series.count(closedAfter, now)
	case late >= 0:
		w.result.starved++
		w.series.count(closedLive, now)
	default:
		w.result.wronglyClosed++
		if w.clients != nil {
			w.clients.Cut(i)
		}
		w.series.count(closedLive, now)
	}
	c.state = gone
}
