package main

import (
	"bytes"
	"errors"
	"fmt"
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

	// The cycles from unanswered to next are those of heartbeats that were sent
	// and have no answer yet.
	unanswered, next uint64
}

func (d *driver) connect(c *conn, i int) error {
	fd, err := unix.Socket(d.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	c.fd = int32(fd)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if d.loopback {
		// The port is chosen by connect, when the whole address is known.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		if err := unix.Bind(fd, sourceAddr(i)); err != nil {
			_ = unix.Close(fd)
			return fmt.Errorf("bind: %w", err)
		}
	}
	if err := unix.Connect(fd, d.target); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		_ = unix.Close(fd)
		return fmt.Errorf("connect: %w", err)
	}
	// Edge-triggered, so that this one call is enough.
	err = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&(1<<32-1),
		Fd:     int32(i),
	})
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// perSource is how many connections share a source address. Beyond 14,000 the
// kernel searches long for a free port, and at 28,232 there is none.
const perSource = 5000

// sourceAddr spreads connections over 127.1.0.0/16 and what follows.
func sourceAddr(i int) unix.Sockaddr {
	n := i/perSource + 1
	return &unix.SockaddrInet4{Addr: [4]byte{127, byte(1 + n>>16), byte(n >> 8), byte(n)}}
}

// failed is for a connection that never came to be.
func (d *driver) failed(c *conn, err error) {
	if c.state == connecting {
		d.waiting--
		_ = unix.Close(int(c.fd))
	}
	c.state = gone
	d.result.failed++
	if d.result.firstFailure == nil {
		d.result.firstFailure = err
	}
}

func (d *driver) send(c *conn, line []byte) {
	c.sent = d.now()
	// A line is short and the socket's buffer empty, so it goes out whole, or the
	// connection is broken, which reading will show.
	if n, err := unix.Write(int(c.fd), line); err != nil || n < len(line) {
		d.result.unsent++
	}
}

// handle is told that something has happened to a connection.
func (d *driver) handle(i int32, events uint32) {
	c := &d.conns[i]
	if c.state == gone {
		return
	}
	if c.state == connecting && c.sent == 0 && events&unix.EPOLLOUT != 0 {
		if code, err := unix.GetsockoptInt(int(c.fd), unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
			d.failed(c, fmt.Errorf("connect: %w", unix.Errno(code)))
			return
		}
		d.send(c, []byte("PING\n")) // its answer says that we are served
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		d.read(i, c, events&^unix.EPOLLIN&^unix.EPOLLOUT != 0)
	}
}

// read reads what has come. end says that the end of the stream has, too.
func (d *driver) read(i int32, c *conn, end bool) {
	for c.state != gone {
		n, err := unix.Read(int(c.fd), d.buf)
		now := d.now()
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil || n == 0:
			d.closed(i, c, now, err)
			return
		default:
			d.answers(i, c, d.buf[:n], now)
			if n < len(d.buf) && !end {
				return // what comes later is another event
			}
		}
	}
}

// answers takes in what the server has said.
func (d *driver) answers(i int32, c *conn, b []byte, now time.Duration) {
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
		case bytes.Equal(line, []byte("PONG")):
			d.welcome(c)
		case bytes.HasPrefix(line, []byte("PONG ")):
			cycle, err := strconv.ParseUint(string(line[len("PONG "):]), 10, 64)
			if err != nil || cycle != c.unanswered || cycle == c.next {
				d.result.stray++
				continue
			}
			c.unanswered++
			record(d.result.rtt, now-d.schedule.due(i, cycle))
		case bytes.HasPrefix(line, []byte("BYE ")): // the close follows
		case bytes.HasPrefix(line, []byte("ERR ")) && c.state == connecting:
			d.failed(c, fmt.Errorf("the server said %q", line))
			return
		default:
			d.result.stray++
		}
	}
	if len(b) > 0 {
		c.partial = bytes.Clone(b)
	}
}

// giveUpWaiting is for the heartbeats of a connection to which no answer will be
// seen any more. How long they have waited counts: to leave them out would hide
// the longest of all.
func (d *driver) giveUpWaiting(i int32, c *conn, now time.Duration) {
	for ; c.unanswered < c.next; c.unanswered++ {
		waited := now - d.schedule.due(i, c.unanswered)
		record(d.result.rtt, waited)
		if waited > d.cfg.margin() {
			d.result.unanswered++
		}
	}
}

// welcome is for a connection that has had its first answer.
func (d *driver) welcome(c *conn) {
	if c.state != connecting {
		d.result.stray++
		return
	}
	c.state = live
	d.waiting--
	d.result.established++
	d.counters.established.Add(1)
}

// closed judges a connection that the server has closed.
func (d *driver) closed(i int32, c *conn, now time.Duration, err error) {
	if c.state == connecting {
		if err == nil {
			err = errors.New("closed before the first answer")
		}
		d.failed(c, err)
		return
	}
	_ = unix.Close(int(c.fd))
	d.counters.closed.Add(1)
	d.giveUpWaiting(i, c, now)
	late := now - c.sent - d.cfg.timeout
	switch {
	case c.goSilent > 0:
		// Silent since its last heartbeat, even if the next was not due yet.
		d.result.closed++
		if late < 0 {
			d.result.early++
		} else {
			record(d.result.late, late)
		}
		if late > d.cfg.margin() {
			d.result.tardy++
		}
	case late >= 0:
		d.result.starved++
	default:
		d.result.wronglyClosed++
	}
	c.state = gone
}
