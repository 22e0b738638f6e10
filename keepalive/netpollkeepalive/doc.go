// Package netpollkeepalive closes connections of CloudWeGo's netpoll when their peers have fallen
// silent. netpoll's own SetIdleTimeout only sets TCP keepalive.
//
//	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
//	...
//	loop, err := netpollkeepalive.NewEventLoop(k, netpollkeepalive.Handler{OnRequest: handle})
//	...
//	err = loop.Serve(ln)
//
// The callbacks get a guarded [netpoll.Connection] with all methods of netpoll's own, and so do
// [keepalive.Touch] and [keepalive.Of]. Its Reader and Writer are still netpoll's buffers,
// without a copy. netpoll itself is not built for Windows, nor for 32 bits.
//
// # What counts as life
//
// With ActivityRead, bytes of the peer. netpoll's poller takes them from the socket, whether the
// program reads them or not. On Linux a TCP socket knows when bytes last arrived, so a slow
// program closes nobody. Other sockets don't know. There, bytes count when OnRequest begins, when
// the program reads them, and when they are found in netpoll's buffer.
//
// # The end
//
// When the Keeper closes a connection, a pending read returns the [keepalive.Reason], and so does
// every later read and write. netpoll closes the socket after OnRequest has returned, and OnClose
// comes then. The peer does not wait for OnRequest.
package netpollkeepalive
