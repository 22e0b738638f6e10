// Package keepalive closes connections whose peers have fallen silent, and never
// one whose peer has not.
//
//	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
//	...
//	ln = k.Listener(ln) // below TLS, if there is TLS
//	http.Serve(ln, handler)
//
// Each accepted connection has one deadline in a timing wheel. What it reads
// moves the deadline; nothing else is done per read, and there is no goroutine
// and no timer per connection. When the deadline has passed, the socket is asked
// whether it is really silent. Then the connection is closed, and a Read that
// waits for it returns [ErrIdleTimeout].
//
// For gnet there is package gnetkeepalive, beside this one.
//
// # What counts as life
//
// See [Activity]: bytes that are read, bytes that are read or written, bytes that
// have arrived, of which only the kernel knows, or only what the program says with
// [Touch], for which it takes a whole message: then a peer that sends a byte now and
// then does not stay for ever.
//
// # Policies
//
// [Config] has what else may end a connection, or save it: a time for the first
// message, probes, an age, rates, room, pressure; all off unless set. None of it
// changes what a touch costs. docs/policies.md goes through them.
//
// # Not to be confused
//
// This is not TCP keepalive. That finds out whether the other machine answers,
// and a peer whose program hangs is alive to it. It is also not the package of
// this name in gRPC, which has all of this for its own connections.
//
// # When not to use this package
//
// A server that sets a read deadline for each request anyway, such as net/http
// with ReadHeaderTimeout and IdleTimeout and without hijacked connections, needs
// nothing else. The user's own deadlines are never touched here, so both can be
// used together.
package keepalive
