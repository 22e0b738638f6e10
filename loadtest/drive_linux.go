package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// drive opens the connections, sends their heartbeats, watches what the server
// does, and returns that. It is one loop around one epoll, on one thread: no
// goroutine per connection.
func drive(ctx context.Context, cfg config, progress io.Writer) (*result, error) {
	d, err := newDriver(cfg)
	if err != nil {
		return nil, err
	}
	defer d.close()
	stop := showProgress(progress, &d.counters)
	defer stop()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.run(ctx); err != nil {
		return nil, err
	}
	d.result.unclosed = d.unclosed()
	for i := range d.conns {
		d.giveUpWaiting(int32(i), &d.conns[i], d.now())
	}
	return &d.result, nil
}

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

// Times are durations since the start, by the monotonic clock.
type driver struct {
	cfg      config
	target   unix.Sockaddr
	family   int
	loopback bool // 127.0.0.0/8: as many source addresses as wanted

	start    time.Time
	conns    []conn
	opened   int // conns that were begun to open
	waiting  int // of those, how many have not had their first answer
	schedule *schedule
	phase    phase
	phaseEnd time.Duration

	epoll, timer int
	events       []unix.EpollEvent
	buf          []byte
	line         []byte

	result   result
	counters counters
}

// phase is where a run has got to.
type phase int

const (
	ramping  phase = iota // opening connections
	steady                // all are open; some fall silent
	settling              // time for the server to close the last silent ones
	over
)

const (
	// maxWaiting bounds the connections whose first answer is outstanding, below
	// the backlog of a listening socket.
	maxWaiting = 1500

	// perSource is how many connections share a source address. Beyond 14,000
	// the kernel searches long for a free port, and at 28,232 there is none.
	perSource = 5000

	// openLimit is how long opening may take, on top of what -ramp says.
	openLimit = 60 * time.Second

	timerEvent = -1 // instead of the index of a connection
)

func newDriver(cfg config) (d *driver, err error) {
	addr, err := net.ResolveTCPAddr("tcp", cfg.addr)
	if err != nil {
		return nil, fmt.Errorf("-addr %s: %w", cfg.addr, err)
	}
	rnd := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	d = &driver{
		cfg:      cfg,
		conns:    make([]conn, cfg.conns),
		schedule: newSchedule(cfg.conns, cfg.interval, rnd),
		events:   make([]unix.EpollEvent, 1024),
		buf:      make([]byte, 64<<10),
		epoll:    -1,
		timer:    -1,
		result:   result{late: newHistogram(), rtt: newHistogram()},
	}
	if ip4 := addr.IP.To4(); ip4 != nil || addr.IP == nil {
		d.family = unix.AF_INET
		sa := &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte{127, 0, 0, 1}}
		copy(sa.Addr[:], ip4)
		d.target, d.loopback = sa, sa.Addr[0] == 127
	} else {
		d.family = unix.AF_INET6
		sa := &unix.SockaddrInet6{Port: addr.Port}
		copy(sa.Addr[:], addr.IP.To16())
		d.target = sa
	}
	// They fall silent early enough to be closed before the end.
	window := cfg.duration - cfg.timeout
	for _, i := range pickSilent(cfg.conns, cfg.silent, rnd) {
		d.conns[i].goSilent = 1 + time.Duration(rnd.Int64N(int64(window))) // after the ramp, see endRamp
		d.result.silent++
	}
	d.result.live = cfg.conns - d.result.silent
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	// A timer, since epoll itself counts in milliseconds.
	if d.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	if err = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, d.timer, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: timerEvent}); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return d, nil
}

func (d *driver) now() time.Duration { return time.Since(d.start) }

func (d *driver) run(ctx context.Context) error {
	d.start = time.Now()
	d.phaseEnd = time.Duration(float64(d.cfg.conns)/float64(d.cfg.ramp)*float64(time.Second)) + openLimit
	for d.phase != over {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		now := d.now()
		d.open(now)
		d.sendDue(now)
		d.nextPhase(d.now())
		if err := d.wait(); err != nil {
			return err
		}
	}
	return nil
}

// nextPhase goes on where a phase is over.
func (d *driver) nextPhase(now time.Duration) {
	switch d.phase {
	case ramping:
		if d.opened == len(d.conns) && d.waiting == 0 || now >= d.phaseEnd {
			d.endRamp(now)
		}
	case steady:
		if now >= d.phaseEnd {
			d.phase, d.phaseEnd = settling, now+d.cfg.margin()
		}
	case settling:
		if now >= d.phaseEnd || d.unclosed() == 0 {
			d.phase = over
		}
	}
}

// endRamp gives up on what is not open by now and sets when the others fall
// silent.
func (d *driver) endRamp(now time.Duration) {
	for i := range d.conns {
		c := &d.conns[i]
		if c.state == unopened || c.state == connecting {
			d.failed(c, errors.New("no answer in time"))
		}
		if c.goSilent > 0 {
			c.goSilent += now
		}
	}
	d.result.ramp = now
	d.phase, d.phaseEnd = steady, now+d.cfg.duration
	if d.result.established == 0 {
		d.phase = over
	}
}

// unclosed returns how many silent connections the server has not closed.
func (d *driver) unclosed() int {
	n := 0
	for i := range d.conns {
		if c := &d.conns[i]; c.goSilent > 0 && (c.state == live || c.state == silent) {
			n++
		}
	}
	return n
}

// open begins to open as many connections as the ramp allows by now.
func (d *driver) open(now time.Duration) {
	allowed := min(len(d.conns), 1+int(now.Seconds()*float64(d.cfg.ramp)))
	for d.opened < allowed && d.waiting < maxWaiting {
		i := d.opened
		d.opened++
		c := &d.conns[i]
		if err := d.connect(c, i); err != nil {
			d.failed(c, err)
			continue
		}
		c.state = connecting
		d.waiting++
	}
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

// sendDue sends the heartbeats that are due.
func (d *driver) sendDue(now time.Duration) {
	for d.schedule.peek() <= now {
		i, cycle := d.schedule.pop()
		c := &d.conns[i]
		if c.state != live {
			continue
		}
		if d.phase != ramping && c.goSilent > 0 && d.schedule.due(i, cycle) >= c.goSilent {
			c.state = silent
			continue
		}
		if c.next != cycle { // its first
			c.unanswered = cycle
		}
		c.next = cycle + 1
		d.line = strconv.AppendUint(append(d.line[:0], "PING "...), cycle, 10)
		d.send(c, append(d.line, '\n'))
		d.result.heartbeats++
		d.counters.heartbeats.Add(1)
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

// wait handles what happens until the next thing is to be done.
func (d *driver) wait() error {
	next := min(d.schedule.peek(), d.phaseEnd)
	if d.phase == ramping && d.opened < len(d.conns) && d.waiting < maxWaiting {
		next = min(next, time.Duration(float64(d.opened)/float64(d.cfg.ramp)*float64(time.Second)))
	}
	if d.phase == settling {
		next = min(next, d.now()+10*time.Millisecond)
	}
	pause := max(next-d.now(), 1) // a timer of 0 is none
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(pause))}
	if err := unix.TimerfdSettime(d.timer, 0, &spec, nil); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	n, err := unix.EpollWait(d.epoll, d.events, int(time.Second/time.Millisecond))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, e := range d.events[:max(n, 0)] {
		if e.Fd == timerEvent {
			_, _ = unix.Read(d.timer, d.buf)
			continue
		}
		d.handle(e.Fd, e.Events)
	}
	return nil
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

// close closes everything.
func (d *driver) close() {
	for i := range d.conns {
		if s := d.conns[i].state; s == connecting || s == live || s == silent {
			_ = unix.Close(int(d.conns[i].fd))
		}
	}
	for _, fd := range []int{d.timer, d.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
