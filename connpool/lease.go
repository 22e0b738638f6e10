package connpool

// A Lease is a connection handed out for one use. The first [Lease.Put], [Lease.Drop] or
// [Lease.Take] ends it. After that the lease, and every copy of it, can do no harm to the
// connection's next user. So defer Drop, and Put when all is well: a connection left
// half-read by a panic or an error goes to nobody else.
//
// All methods are safe for concurrent use.
type Lease[T any] struct {
	// Conn is the connection. It must not be used after the lease has ended. It need not be
	// closed: Drop closes it.
	Conn T

	conn *conn[T]
	turn uint64
}

// Reused reports whether the connection was idle before, or somebody else's: it did not
// come right from its dial. If so, and the first request on it fails, the server may have
// closed it at that moment, and another connection may do better.
func (l Lease[T]) Reused() bool { return l.turn > 1 }

// Put puts the connection back: for the longest waiter, or to be idle. If it is too old, or
// CheckPut returns an error, it is closed instead. Put returns [ErrReturned] if the lease
// has ended before, and [ErrClosed] if the pool has been closed: then the connection is
// closed, too.
func (l Lease[T]) Put() error {
	if l.conn == nil {
		return ErrReturned
	}
	p := l.conn.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.giveBack(l)
}

// Drop closes the connection: it is broken, or nobody else could use it in its present
// state. It returns [ErrReturned] if the lease has ended before.
func (l Lease[T]) Drop() error {
	if l.conn == nil {
		return ErrReturned
	}
	p := l.conn.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.finish() {
		return ErrReturned
	}
	p.end(l.conn, ReasonDropped)
	return nil
}

// Take takes the connection out of the pool. The pool forgets it and no longer counts it:
// from now on its caller has to close it. Take returns [ErrReturned] if the lease has ended
// before.
func (l Lease[T]) Take() (T, error) {
	var none T
	if l.conn == nil {
		return none, ErrReturned
	}
	p := l.conn.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.finish() {
		return none, ErrReturned
	}
	l.conn.stop()
	p.open--
	p.taken++
	p.less.Broadcast()
	p.dialMore()
	return l.conn.value, nil
}

// finish ends the lease. It reports false if the lease has ended before. Pool.mu must be
// held.
func (l Lease[T]) finish() bool {
	if l.conn.turn != l.turn {
		return false
	}
	l.conn.turn++
	if l.conn.loan != nil {
		l.conn.loan.end()
	}
	return true
}

// lend hands a connection out. p.mu must be held.
func (p *Pool[T]) lend(c *conn[T]) Lease[T] {
	c.turn++
	return Lease[T]{Conn: c.value, conn: c, turn: c.turn}
}

// lent notes that Get returns a connection. by is its caller, or nil without LeakAfter. p.mu must be
// held.
func (p *Pool[T]) lent(c *conn[T], by *trace) {
	p.gets++
	if c.loan != nil {
		c.loan.begin(by)
	}
}

// giveBack is Put. p.mu must be held, and is released while a function of the user runs.
func (p *Pool[T]) giveBack(l Lease[T]) error {
	if !l.finish() {
		return ErrReturned
	}
	c := l.conn
	why := p.unfit(c)
	if why == 0 && p.cfg.CheckPut != nil {
		ctx, cancel := bounded(p.ctx, p.cfg.CheckTimeout)
		defer cancel()
		if !p.sound(ctx, c, p.cfg.CheckPut, p.end) {
			return nil
		}
		why = p.unfit(c)
	}
	if why == 0 {
		p.restore(c)
		return nil
	}
	p.end(c, why)
	if why == ReasonClosed {
		return ErrClosed
	}
	return nil
}

// restore gives an unused connection to the longest waiter, or makes it idle. If there is
// no room for it, restore ends the idlest. p.mu must be held.
func (p *Pool[T]) restore(c *conn[T]) {
	if p.serve(c) {
		return
	}
	if c.turn == 0 {
		c.turn = 2 // as if somebody had had it: its next lease is Reused
	}
	p.arm(c, p.group.now())
	p.idle.push(c)
	if p.idle.n > p.cfg.MaxIdle {
		surplus := p.idle.oldest
		p.idle.remove(surplus)
		p.discard(surplus, ReasonMaxIdle)
	}
}
