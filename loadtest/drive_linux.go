package main

import (
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
