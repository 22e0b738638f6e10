// Package connpool keeps connections to a server open for the next request. It is an
// outbound pool, and each idle connection has a deadline in a timing wheel. There is no
// goroutine and no timer per connection, and nothing scans them. The pools of thousands of
// backends can share one wheel.
//
//	p, err := connpool.New(connpool.Config[net.Conn]{
//		Dial: func(ctx context.Context) (net.Conn, error) {
//			return dialer.DialContext(ctx, "tcp", "127.0.0.1:6379")
//		},
//		Check:   connpool.Alive,
//		MaxOpen: 10,
//	})
//	...
//	lease, err := p.Get(ctx)
//	...
//	defer lease.Drop() // does nothing after Put
//	if _, err := lease.Conn.Write(request); err != nil {
//		return err // broken: nobody else gets it
//	}
//	... // read the whole answer
//	return lease.Put()
//
// # What it promises
//
// A connection is with one user at a time. A returned [Lease] is void: using it again is an
// error and harms nobody. The longest wait is served first. If a context ends during the
// hand-over, the connection goes to the next. There are never more than MaxOpen
// connections, also counting those being dialed and closed. A failed dial, a check that hangs, a
// panic in a function: none of them costs a slot.
//
// # A lease that nobody puts back
//
// It takes its slot with it, and at last every Get waits. With LeakAfter the pool tells who has it:
//
//	LeakAfter: time.Minute,
//	OnLeak: func(l connpool.Leak[net.Conn]) {
//		log.Printf("%v out for %v (returned: %v)\n%s", l.Conn.LocalAddr(), l.Out, l.Returned, l.Stack)
//	},
//
// The connection stays with its user. The deadline of each lease is a timer in the wheel of the
// pool. [Pool.Shutdown] waits for leases until its context ends, and says how many are still out.
//
// # When not to use this package
//
// database/sql, [net/http.Transport], and the clients of Redis and gRPC have pools of
// their own. For memory there is [sync.Pool]. For accepted connections, take package
// keepalive.
package connpool
