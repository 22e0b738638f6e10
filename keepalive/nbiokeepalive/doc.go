// Package nbiokeepalive closes nbio connections when their peers have fallen silent.
//
//	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
//	...
//	engine := nbiokeepalive.Wrap(nbio.NewEngine(config), k)
//	engine.OnData(func(c *nbio.Conn, data []byte) { ... })
//	err = engine.Start()
//
// nbio itself has SetReadDeadline. That is a timer for each connection, moved by the program at
// each message, and at its end nbio closes the connection without a question. Here the Keeper
// moves the deadline when bytes arrive, and asks OnIdle of the keepalive.Config before the end.
//
// The program's connections are nbio's own, with their Session. [keepalive.Of] and
// [keepalive.Touch] take an *nbio.Conn on any goroutine. OnClose gets [keepalive.ErrIdleTimeout]
// for a connection closed for its silence.
//
// It is for connections of TCP and Unix sockets, accepted, added or dialled. UDP passes through.
// For HTTP and WebSocket, see package nbhttpkeepalive. WrapProxied is for connections of a proxy that names its clients by the
// PROXY protocol.
//
// # What counts as life
//
// With ActivityRead, arrived bytes. With ActivityReadWrite also bytes acknowledged by the peer,
// on Linux with TCP only. With ActivityManual only [keepalive.Touch]. With ActivityKernel,
// arrived bytes; Unix sockets are kept as with ActivityRead.
//
// # Where things run
//
// The decision on a connection comes after its OnData has returned, and behind the jobs given to
// its Execute. So no slow program loses a living peer: a touch in OnData or in a job comes first.
// OnIdle and the other functions of the keepalive.Config run on goroutines of the Keeper, beside
// a later OnData. OnClose runs on nbio's goroutine for it.
//
// # Closing
//
// Bytes in nbio's write queue are lost if the program closes the connection. The Keeper waits
// for them, for Closing.Timeout at most, if there is a farewell, half a close or a drain. A silent
// peer without a farewell gets no time. nbio's own deadlines stay the program's: when one
// passes, nbio closes the connection, and the reason is ReasonLocal.
package nbiokeepalive
