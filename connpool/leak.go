package connpool

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"
)

// Leak is the report of a lease that is out for longer than [Config.LeakAfter]. Each such lease is
// reported once, and once more if it comes back after all.
type Leak[T any] struct {
	// Conn is the connection. It is in use, and after the return perhaps closed, or in use by
	// somebody else. Take it as a name only.
	Conn T

	Out      time.Duration // since Get returned the lease, until now or until its return
	Returned bool          // false in the first report, and true in the second: put back, dropped or taken

	// Stack is the stack of the Get, as in a panic, from the caller of Get on. It has at
	// most 32 frames.
	Stack string
}

// logLeak is the OnLeak of a config without one.
func logLeak[T any](l Leak[T]) {
	if l.Returned {
		slog.Default().Info("connpool: lease has come back after its report", "out", l.Out, "stack", l.Stack)
		return
	}
	slog.Default().Warn("connpool: lease is out for longer than LeakAfter", "out", l.Out, "stack", l.Stack)
}

// trace is the stack of a Get, without names.
type trace struct {
	pcs [32]uintptr
	n   int
}

// caller returns the stack of the caller of Get. Get must call it.
//
//go:noinline
func caller() *trace {
	t := new(trace)
	t.n = runtime.Callers(3, t.pcs[:]) // without Callers, caller and Get
	return t
}

// String looks the names up.
func (t *trace) String() string {
	var b strings.Builder
	frames := runtime.CallersFrames(t.pcs[:t.n])
	for more := t.n > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		fmt.Fprintf(&b, "%s()\n\t%s:%d\n", f.Function, f.File, f.Line)
	}
	return b.String()
}

// loan watches the leases of one connection, one after the other. Without LeakAfter there is
// none. Pool.mu guards it.
type loan[T any] struct {
	conn *conn[T]

	// timer is due LeakAfter after the last Get. Each Get touches it. If it becomes due while the
	// connection is not in use, it stays undecided until the next Get.
	timer timer

	trace  *trace // of the Get, nil while the connection is not in use
	since  time.Time
	notice *notice[T] // of this lease, nil until it is reported
}

// notice is what is told of one lease.
type notice[T any] struct {
	trace   *trace
	untold  []Leak[T] // the leak, its return, or both
	telling bool      // a job in the background tells of it
}

// watch makes the loan of a new connection. p.mu must be held.
func (p *Pool[T]) watch(c *conn[T]) {
	if p.cfg.LeakAfter == never {
		return
	}
	c.loan = &loan[T]{conn: c}
	_ = p.group.wheel.Start(&c.loan.timer, c.loan, p.cfg.LeakAfter) // as in start
}

// begin begins a lease. Pool.mu must be held.
func (l *loan[T]) begin(t *trace) {
	l.trace, l.since = t, time.Now()
	l.timer.Touch()
}

// due reports a lease that is still out.
func (l *loan[T]) due(t *timer) {
	p := l.conn.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	// Not in use, or in use by the next one, or told already: a timer touched meanwhile may be due
	// again, and two workers come for it.
	if l.trace == nil || l.notice != nil || !t.IsDue() {
		return
	}
	p.leaks++
	p.leaking++
	l.notice = &notice[T]{trace: l.trace}
	l.tell(false)
}

// end ends a lease. Pool.mu must be held.
func (l *loan[T]) end() {
	if l.notice != nil {
		l.conn.pool.leaking--
		l.tell(true)
	}
	l.trace, l.notice = nil, nil
}

// tell calls OnLeak in the background: for the leak first, and then for the return. Pool.mu must be
// held.
func (l *loan[T]) tell(returned bool) {
	p, n := l.conn.pool, l.notice
	n.untold = append(n.untold, Leak[T]{Conn: l.conn.value, Out: time.Since(l.since), Returned: returned})
	if n.telling {
		return
	}
	n.telling = true
	p.begin(func() {
		defer func() { n.telling = false }()
		for len(n.untold) > 0 {
			next := n.untold[0]
			n.untold = n.untold[1:]
			p.onLeak(next, n.trace)
		}
	})
}

// onLeak calls OnLeak. p.mu must be held, and is released meanwhile.
func (p *Pool[T]) onLeak(leak Leak[T], t *trace) {
	p.mu.Unlock()
	defer p.mu.Lock()
	_ = p.protect(func() error {
		leak.Stack = t.String()
		p.cfg.OnLeak(leak)
		return nil
	})
}
