package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/loadtest/fleet"
)

// worker drives a part of the connections: one loop around one epoll, on one
// thread. Times are durations since the start of the run, by the monotonic clock.
type worker struct {
	*shared
	role
	conns   []conn
	opened  int // conns that were begun to open
	waiting int // of those, how many have not had their first answer
	ramped  bool
	line    *timeline     // nil during the ramp
	toClose int           // silent ones that are still to be closed
	pending int           // heartbeats that have no answer yet
	last    time.Duration // from here nothing is sent any more, or 0

	beats   *schedule // of regular heartbeats
	current *schedule // the same, or that of the last ones in a storm

	epoll, timer int
	armed        time.Duration // when the timer rings, or 0
	events       []unix.EpollEvent
	buf          []byte
	out          []byte

	result  result
	clients *fleet.Clients // nil without a fleet
}

const (
	// maxWaiting bounds the connections of all workers without a first answer, below the backlog of a
	// listening socket. By it the ramp yields to a server with much else to do.
	maxWaiting = 1500

	// minWaiting is what each worker may have in any case.
	minWaiting = 8

	// rampQuantum bounds the quantum during the ramp.
	rampQuantum = 20 * time.Millisecond

	// patience bounds a worker's sleep during the ramp, since nobody tells it the end.
	patience = 10 * time.Millisecond

	timerEvent = -1 // instead of the index of a connection

	// edge has epoll tell of an event once.
	edge = unix.EPOLLET & (1<<32 - 1)
)

// role is what a worker is for.
type role struct {
	first, conns int
	silent       float64
	interval     time.Duration
	reply        bool
	quantum      time.Duration
	offset       time.Duration // so that not all workers wake at the same time
	probes       bool
}

func (s *shared) newWorker(r role, rnd *rand.Rand) *worker {
	w := &worker{
		shared: s,
		role:   r,
		conns:  make([]conn, r.conns),
		beats:  newSchedule(r.conns, 0, r.interval, rnd),
		epoll:  -1,
		timer:  -1,
		events: make([]unix.EpollEvent, 256),
		buf:    make([]byte, 16<<10),
	}
	w.current = w.beats
	if s.fleet != nil {
		w.clients = s.fleet.Clients(r.first, r.conns)
	}
	// They fall silent early enough to be closed before the end.
	window := s.cfg.duration - s.cfg.timeout
	for _, i := range pickSilent(r.conns, r.silent, rnd) {
		w.conns[i].goSilent = 1 + time.Duration(rnd.Int64N(int64(window))) // after the ramp, see endRamp
		w.result.silent++
	}
	w.result.live = r.conns - w.result.silent
	if s.cfg.closes() {
		w.toClose = w.result.silent
		s.unclosed.Add(int64(w.toClose))
	}
	return w
}

// openFiles opens what the worker needs before its first connection.
func (w *worker) openFiles() (err error) {
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	// A timer, since epoll itself counts in milliseconds.
	if w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	if err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, w.timer, &unix.EpollEvent{Events: unix.EPOLLIN | edge, Fd: timerEvent}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// closeFiles closes everything.
func (w *worker) closeFiles() {
	for i := range w.conns {
		if s := w.conns[i].state; s == connecting || s == live || s == silent {
			_ = unix.Close(int(w.conns[i].fd))
		}
	}
	for _, fd := range []int{w.timer, w.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// run returns when the run is over, or when quit is closed.
func (w *worker) run(quit <-chan struct{}) error {
	for {
		select {
		case <-quit:
			return nil
		default:
		}
		now := w.now()
		w.open(now)
		w.sendDue(now)
		w.reopen(w.now())
		if w.over(w.now()) {
			break
		}
		if err := w.wait(); err != nil {
			return err
		}
	}
	w.result.unclosed = max(w.toClose, 0)
	for i := range w.conns {
		w.giveUpWaiting(int32(i), &w.conns[i], w.now())
	}
	return nil
}

// over goes on after the end of a phase, and reports whether all phases are over.
func (w *worker) over(now time.Duration) bool {
	if w.line == nil {
		_, returning := w.nextReturn()
		if !w.ramped && w.opened == len(w.conns) && w.waiting == 0 && !returning {
			w.ramped = true
			w.ramping.Add(-1)
		}
		if line := w.timeline.Load(); line != nil {
			w.endRamp(line)
		}
		return false
	}
	if w.clients != nil {
		w.line = w.timeline.Load() // whose end was not known at first
	}
	if w.last == 0 && (now >= w.line.end || now >= w.line.settling && w.unclosed.Load() <= 0) {
		w.last = now
	}
	return w.last > 0 && (w.pending == 0 || now > w.last+w.cfg.margin())
}

// isClosed counts the close of a connection chosen to fall silent.
func (w *worker) isClosed() {
	w.toClose--
	w.unclosed.Add(-1)
}

// endRamp gives up on what is not open by now and sets when the others fall
// silent.
func (w *worker) endRamp(line *timeline) {
	w.line = line
	for i := range w.conns {
		c := &w.conns[i]
		if c.state == unopened || c.state == connecting {
			w.failed(int32(i), c, errNoAnswer)
		}
		if c.goSilent > 0 {
			c.goSilent += line.steady
		}
	}
}

// window is how many connections may wait for their first answer.
func (w *worker) window() int {
	return max(minWaiting, maxWaiting*len(w.conns)/w.total())
}

// rate is how many connections may be opened per second.
func (w *worker) rate() float64 {
	return float64(w.cfg.ramp) * float64(len(w.conns)) / float64(w.total())
}

// open begins to open as many connections as the ramp allows by now.
func (w *worker) open(now time.Duration) {
	if w.line != nil {
		return
	}
	allowed := min(len(w.conns), 1+int(now.Seconds()*w.rate()))
	for w.opened < allowed && w.waiting < w.window() {
		i := w.opened
		w.opened++
		c := &w.conns[i]
		if err := w.connect(c, i); err != nil {
			w.failed(int32(i), c, err)
			continue
		}
		c.state = connecting
		w.waiting++
	}
}

// sendDue sends the due heartbeats.
func (w *worker) sendDue(now time.Duration) {
	for w.last == 0 && w.current.peek() <= now {
		storm := w.line != nil && w.line.storm > 0 && !w.probes
		if storm && w.current == w.beats && w.beats.peek() >= w.line.storm {
			w.current = newSchedule(len(w.conns), w.line.storm, stormTime, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
			continue
		}
		i, cycle := w.current.pop()
		c := &w.conns[i]
		switch {
		case c.state != live:
		case w.current != w.beats: // the last one
			c.state, c.goSilent = silent, w.line.storm
			w.sendBeat(c, w.current.due(i, cycle))
			w.series.count(fellSilent, c.sent)
		case !storm && w.line != nil && c.goSilent > 0 && w.beats.due(i, cycle) >= c.goSilent:
			c.state = silent
			w.series.count(fellSilent, c.sent)
		case w.reply:
			w.sendPing(i, c, cycle)
		default:
			w.sendBeat(c, w.beats.due(i, cycle))
		}
	}
}

// sendPing sends a heartbeat with an answer.
func (w *worker) sendPing(i int32, c *conn, cycle uint64) {
	if c.next != cycle { // its first
		c.unanswered = cycle
	}
	c.next = cycle + 1
	w.pending++
	w.out = strconv.AppendUint(append(w.out[:0], "PING "...), cycle, 10)
	w.out = append(w.out, '\n')
	w.heartbeat(c, w.out, w.beats.due(i, cycle))
}

var beat = []byte("BEAT\n")

// sendBeat sends a heartbeat without an answer.
func (w *worker) sendBeat(c *conn, due time.Duration) { w.heartbeat(c, beat, due) }

func (w *worker) heartbeat(c *conn, line []byte, due time.Duration) {
	w.send(c, line)
	if w.line != nil {
		w.result.lag.Record(c.sent - due)
	}
	w.series.count(sent, c.sent)
	w.series.record(lag, c.sent, c.sent-due)
	w.result.heartbeats++
	w.counters.heartbeats.Add(1)
}

// nextTask returns when there is something to do besides what happens to the
// connections.
func (w *worker) nextTask() time.Duration {
	next := w.current.peek()
	if at, ok := w.nextReturn(); ok && w.waiting < w.window() {
		next = min(next, at)
	}
	if w.line == nil {
		next = min(next, w.now()+patience)
		if w.opened < len(w.conns) && w.waiting < w.window() {
			next = min(next, time.Duration(float64(w.opened)/w.rate()*float64(time.Second)))
		}
		return next
	}
	if w.line.storm > w.now() {
		next = min(next, w.line.storm)
	}
	if w.now() >= w.line.settling {
		return min(next, w.now()+patience, w.line.end)
	}
	return min(next, w.line.settling)
}

// wait handles what happens until the next task is due. With a quantum, it
// sleeps first, and then handles all at once.
func (w *worker) wait() error {
	timeout := int(time.Second / time.Millisecond)
	if w.quantum > 0 {
		quantum := w.quantum
		if w.line == nil {
			quantum = min(quantum, rampQuantum) // or opening takes as many as there are answers to wait for
		}
		pause := unix.NsecToTimespec(int64(quantum - (w.now()+w.offset)%quantum))
		_ = unix.Nanosleep(&pause, nil)
		timeout = 0
	} else {
		if err := w.arm(w.nextTask()); err != nil {
			return err
		}
	}
	for {
		n, err := unix.EpollWait(w.epoll, w.events, timeout)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, e := range w.events[:max(n, 0)] {
			if e.Fd == timerEvent {
				w.armed = 0
				continue
			}
			w.handle(e.Fd, e.Events)
		}
		if n < len(w.events) || w.quantum == 0 {
			return nil
		}
	}
}

// arm sets the timer.
func (w *worker) arm(at time.Duration) error {
	if at == w.armed {
		return nil
	}
	w.armed = at
	pause := max(at-w.now(), 1) // a timer of 0 is none
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(pause))}
	if err := unix.TimerfdSettime(w.timer, 0, &spec, nil); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	return nil
}
