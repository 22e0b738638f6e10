package connpool

import "time"

// conn is a connection of a pool, from the end of its dial until it is closed. Pool.mu
// guards all of it but value, pool and gen: these don't change.
type conn[T any] struct {
	value T
	pool  *Pool[T]
	gen   uint64 // Pool.gen when its dial began

	// turn goes up with each hand-over and with each return. So a lease is valid for one
	// turn. It is odd while the connection is in use.
	turn uint64

	loan *loan[T] // nil without LeakAfter; set once

	// timer is due when the connection has been idle for MaxIdleTime, or is too old. Each
	// return touches it. If it becomes due while the connection is in use, it stays
	// undecided until the return.
	timer timer

	since time.Duration // by Group.now: idle since then
	lost  int64         // Group.lost then
	oldAt time.Duration // by Group.now: too old from then on, or never
	aging bool          // the timer's deadline is oldAt

	idle         bool // in Pool.idle
	newer, older *conn[T]
}

// stack holds the idle connections. The newest leaves first, and the surplus idles out.
type stack[T any] struct {
	newest, oldest *conn[T]
	n              int
}

func (s *stack[T]) push(c *conn[T]) {
	c.idle, c.older, c.newer = true, s.newest, nil
	if s.newest == nil {
		s.oldest = c
	} else {
		s.newest.newer = c
	}
	s.newest = c
	s.n++
}

// pushOldest puts c below all others.
func (s *stack[T]) pushOldest(c *conn[T]) {
	c.idle, c.newer, c.older = true, s.oldest, nil
	if s.oldest == nil {
		s.newest = c
	} else {
		s.oldest.older = c
	}
	s.oldest = c
	s.n++
}

// pop takes out the newest, or returns nil.
func (s *stack[T]) pop() *conn[T] {
	c := s.newest
	if c != nil {
		s.remove(c)
	}
	return c
}

func (s *stack[T]) remove(c *conn[T]) {
	if c.newer == nil {
		s.newest = c.older
	} else {
		c.newer.older = c.older
	}
	if c.older == nil {
		s.oldest = c.newer
	} else {
		c.older.newer = c.newer
	}
	c.idle, c.newer, c.older = false, nil, nil
	s.n--
}

// start starts the timer of a new connection. p.mu must be held.
func (p *Pool[T]) start(c *conn[T]) {
	c.oldAt = never
	age := p.drawAge()
	if age != never {
		now := p.group.now()
		c.oldAt = now + min(age, never-now) // less than never is no overflow
		c.aging = age <= p.cfg.MaxIdleTime
	}
	if d := min(age, p.cfg.MaxIdleTime); d != never {
		// Start fails only after the wheel has stopped, and then the pool is closed.
		_ = p.group.wheel.Start(&c.timer, c, d)
	}
	p.watch(c)
}

// stop ends the deadlines of a connection that leaves the pool.
func (c *conn[T]) stop() {
	c.timer.Remove()
	if c.loan != nil {
		c.loan.timer.Remove()
	}
}

// arm sets the deadline of a newly idle connection. p.mu must be held.
func (p *Pool[T]) arm(c *conn[T], now time.Duration) {
	c.since, c.lost = now, p.group.lost.Load()
	switch left := c.oldAt - now; {
	case left > p.cfg.MaxIdleTime || c.oldAt == never:
		c.timer.Touch()
	case !c.aging:
		c.aging = true
		c.timer.Move(left)
	}
}

// due decides about a connection after its deadline.
func (c *conn[T]) due(t *timer) {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.idle || p.closed || !t.IsDue() { // in use: its return sets another deadline
		return
	}
	p.idle.remove(c)
	if why := p.overdue(c); why != 0 {
		t.Expire()
		p.discard(c, why)
		p.dialMore() // for MinIdle, even if Close hangs
		return
	}
	p.kept++
	p.begin(func() { p.keep(c) })
}

// keep checks a connection for MinIdle, and makes it idle again: as the idlest, since
// nobody has used it. p.mu must be held, and is released while the check runs.
func (p *Pool[T]) keep(c *conn[T]) {
	defer func() {
		p.kept--
		p.dialMore()
	}()
	if p.tend != nil {
		ctx, cancel := bounded(p.ctx, p.cfg.CheckTimeout)
		defer cancel()
		if !p.sound(ctx, c, p.tend, p.end) {
			return
		}
	}
	why := p.unfit(c)
	switch {
	case why != 0 || p.serve(c):
	case p.idle.n >= p.cfg.MaxIdle: // others came back meanwhile, and this is the idlest
		why = ReasonMaxIdle
	default:
		p.renew(c)
	}
	if why != 0 {
		p.end(c, why)
	}
}

// renew makes a kept connection idle again. p.mu must be held.
func (p *Pool[T]) renew(c *conn[T]) {
	c.since, c.lost = p.group.now(), p.group.lost.Load()
	left := min(p.cfg.MaxIdleTime, c.oldAt-c.since)
	c.aging = left < p.cfg.MaxIdleTime
	now := p.group.wheel.Time(0)
	c.timer.Rearm(now + min(left, never-now))
	p.idle.pushOldest(c)
}
