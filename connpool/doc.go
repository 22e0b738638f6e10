// Package connpool keeps connections to a server open for the next request: an
// outbound pool, whose idle connections each have a deadline in a timing wheel.
// There is no goroutine and no timer per connection, and nothing scans them. The
// pools of thousands of backends can share one wheel.
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
//	defer lease.Drop() // does nothing where it was put back before
//	if _, err := lease.Conn.Write(request); err != nil {
//		return err // broken: nobody else gets it
//	}
//	... // read the whole answer
//	return lease.Put()
//
// # What it promises
//
// A connection is with one user at a time, and a [Lease] that was returned is void:
// using it again is an error and harms nobody. Who waits longest is served first, and
// what is handed to somebody whose context ends at that moment goes to the next. There
// are never more than MaxOpen connections, those being dialed and closed included. A
// dial that fails, a check that hangs, a function that panics costs no slot.
//
// # When not to use this package
//
// database/sql, [net/http.Transport], and the clients of Redis and gRPC have pools of
// their own. For memory there is [sync.Pool]. For connections that others have opened
// to you, take package keepalive.
package connpool
