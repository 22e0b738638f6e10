package heartbeat

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/socket"
	"github.com/heartwheel-go/heartwheel/internal/tcpsocket"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// maxExcuses is how many times in a row an answer may be late because bytes of the server wait to
// be read: at first this program is slow, and then it hangs.
const maxExcuses = 3

var errGoexit = errors.New("the function Beat has ended its goroutine")

// beat keeps one connection alive. It has one entry in the wheel:
//
//   - The timer's deadline is the next beat. A write touches it.
//   - Its limit is when the server must have answered, or is to be asked after a long silence.
//     No write moves it.
//
// Beats count real time, as the server does. Answers count the wheel's time, without stalls.
type beat struct {
	conn   *Conn
	beater *Beater
	opts   Options
	done   chan struct{} // closed when it has ended
	ended  func()        // called after done is closed

	// timer is an object of its own, since a slot of the wheel may keep it for a
	// while after the connection is closed.
	timer *wheel.TimerOf[*beat]

	// patience is how long a server may be silent until it is asked, even if writes make beats
	// unnecessary.
	patience time.Duration

	// Instants of the wheel's time.
	heard    atomic.Int64 // when the server was heard last
	deadline atomic.Int64 // by when it must be heard; 0 while no beat is unanswered
	taken    atomic.Int64 // by when the server must take more of the present beat, although it is heard, or of the user's Write; 0 for neither

	behind atomic.Int64 // what the server has counted of a stall, until due sees it

	// mu guards the fields below, and the setting of deadline and taken. It is not held while a
	// function of the user runs. The wheel may be called with it.
	mu        sync.Mutex
	why       error         // it has ended for, or nil
	delay     time.Duration // the interval
	until     time.Duration // the timer's deadline after Move and Rearm, by the wheel's time
	writing   chan struct{} // closed when the present beat is written; nil if none is being written
	grace     bool          // the present beat comes in the grace after a stall
	sent      time.Time     // when the first unanswered beat was, or zero
	roundTrip time.Duration // of the last answer
	excuses   int           // since the server was heard
	acked     uint64        // bytes acknowledged by the server at the last look
	written   uint64        // bytes up to the end of the last beat: the server has the beat when it has acknowledged them
}

// limit returns the latest instant for a call of due. The wheel calls it while it is locked.
func (x *beat) limit() time.Duration {
	if by := x.deadline.Load(); by != 0 {
		return time.Duration(by)
	}
	if by := x.taken.Load(); by != 0 { // the server was heard since, or the user writes
		return time.Duration(by)
	}
	if x.opts.Answer == AnswerNone {
		return math.MaxInt64
	}
	return sum(time.Duration(x.heard.Load()), x.patience)
}

// due runs on a worker when something is to be decided.
func (x *beat) due() { x.act(x.look()) }

func (x *beat) act(s sight) {
	send, err := x.decide(s)
	if err != nil {
		x.end(err, true)
		return
	}
	if send {
		x.send()
	}
}

// decide reports whether a beat is to be sent now. If not, it files the timer again. It returns an
// error if an answer is missing, or the server takes nothing of a Write.
func (x *beat) decide(s sight) (send bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.why != nil {
		x.timer.Remove()
		return false, nil
	}
	s.writing = s.writing && x.conn.writing.Load() > 0 // it may have ended since
	x.notice(s)
	late := s.now >= x.limit()
	if late && (x.deadline.Load() != 0 || x.writing != nil) {
		if x.deadline.Load() == 0 { // heard, but the present beat never ends
			return false, &noAnswer{x.opts.Timeout, notWritten}
		}
		if !s.unread || !x.excused() {
			what := notAnswered
			if x.writing != nil {
				what = notWritten
			}
			return false, &noAnswer{x.opts.AckTimeout, what}
		}
		late = false
	}
	switch {
	case x.writing != nil: // the server hears of us when it takes this one
		x.timer.Touch()
	case s.writing && late:
		return false, &noAnswer{x.opts.Timeout, notTaken}
	case s.writing:
		// The same, and a beat could only wait behind the write, as long as a slow peer
		// takes. The beat would not be at fault.
		x.timer.Touch()
	default:
		behind := time.Duration(x.behind.Swap(0))
		if late || !x.waits(behind) {
			x.begin(behind > 0)
			return true, nil
		}
	}
	return false, nil
}

// waits reports whether the deadline has not come yet, and has the timer wait for it; or, if
// the server is ahead, until so much before it.
func (x *beat) waits(behind time.Duration) bool {
	touched, rearmed := x.timer.Touched()
	until := sum(touched, x.delay)
	if rearmed {
		until = x.until
	}
	until -= behind
	if until <= x.beater.wheel.Time(0) && x.timer.IsDue() {
		return false
	}
	if x.timer.Rearm(until) {
		x.until = until
	}
	x.catchUp()
	return true
}

// catchUp hands the connection over if stalled could not, because a worker was just deciding on it,
// or a beat was being written.
func (x *beat) catchUp() {
	if x.behind.Load() > 0 {
		x.timer.HandOver()
	}
}

// move sets the deadline to d from now, once.
func (x *beat) move(d time.Duration) {
	x.until = time.Duration(x.beater.in(d))
	x.timer.Move(d)
}

// excused reports whether an answer may be later, since bytes of the server wait to be read. mu must
// be held.
func (x *beat) excused() bool {
	if x.excuses == maxExcuses {
		return false
	}
	x.excuses++
	x.deadline.Store(x.beater.in(x.opts.AckTimeout))
	return true
}

// begin notes a beat that is being written, and files the timer for the next one. grace means a
// beat because of a stall. mu must be held.
func (x *beat) begin(grace bool) {
	x.writing = make(chan struct{})
	x.taken.Store(x.beater.in(x.opts.Timeout))
	if x.deadline.Load() == 0 {
		x.sent = time.Now()
		x.deadline.Store(x.beater.in(x.opts.AckTimeout))
	}
	x.timer.Touch()
	x.timer.SetDelay(x.delay) // if a write was first, the wheel has yet to see the deadline
	x.grace = grace
}

// send sends a beat. While it blocks, due may be called again.
func (x *beat) send() {
	err := errGoexit
	defer func() { x.sentBeat(err) }()
	err = x.beater.call("Beat", func() error { return x.opts.Beat(x.conn) })
}

// sentBeat is called when a beat was sent, or could not be.
func (x *beat) sentBeat(err error) {
	var s tcpsocket.Sent
	if raw, _, err := socket.Of(x.conn.inner, nil); err == nil {
		s, _ = sent(raw)
	}
	x.mu.Lock()
	x.acked, x.written = s.Acknowledged, s.Written
	close(x.writing)
	x.writing = nil
	x.taken.Store(0)
	if x.opts.Answer == AnswerNone {
		x.deadline.Store(0)
	}
	if x.grace { // the wheel's time stands still, but the server's doesn't
		x.move(max(1, x.delay-x.beater.grace))
	}
	x.catchUp()
	x.mu.Unlock()
	if err != nil {
		x.end(fmt.Errorf("heartbeat: sending a beat: %w", err), true)
		return
	}
	x.beater.beats.Add(1)
}

// end ends the beats, and the connection if they have failed. It reports false if they have ended
// before.
func (x *beat) end(why error, failed bool) bool {
	x.mu.Lock()
	if x.why != nil {
		x.mu.Unlock()
		return false
	}
	x.why = why
	x.mu.Unlock()
	x.timer.Remove()
	if failed {
		x.beater.report(why)
		_ = x.beater.call("Close", func() error { x.conn.shut(why); return nil })
	}
	close(x.done)
	x.ended()
	return true
}

// settle waits until the last beat is written, after the end of the beats. It closes the
// connection if that takes longer than AckTimeout.
func (x *beat) settle() {
	x.mu.Lock()
	writing := x.writing
	x.mu.Unlock()
	if writing == nil {
		return
	}
	late := time.NewTimer(x.opts.AckTimeout)
	defer late.Stop()
	select {
	case <-writing:
	case <-late.C:
		x.conn.shut(&noAnswer{x.opts.AckTimeout, notWritten})
	}
}

// err returns why the beats have ended, or nil.
func (x *beat) err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.why
}
