// Package server is a TCP server on gnet that closes silent connections: the
// whole of Heartwheel at work, to embed or to copy from.
//
//	s, err := server.New(server.Config{Addr: "127.0.0.1:9000", Timeout: 30 * time.Second})
//	...
//	err = s.Run(ctx) // until ctx is done, then a graceful shutdown
//
// # Protocol
//
// A person can speak it with nc. Lines end with \n or \r\n, and answers end as
// the line did.
//
//	any line   the same line
//	PING       PONG
//	PING x     PONG x
//	BEAT       nothing: a heartbeat for peers that need no answer
//	BEAT x     nothing
//	QUIT       BYE, and the connection is closed
//
// Only a whole line is a heartbeat. What the server says unasked:
//
//	PING         where probes are wanted: any line is an answer, so BEAT is one
//	GOAWAY 10s   the connection will be closed in 10s, because of its age
//
// and before it closes a connection:
//
//	BYE idle timeout 30s            no line for the timeout
//	BYE first message timeout 5s    no line at all
//	BYE no answer to PING
//	BYE maximum age 1h0m0s
//	BYE closed to make room         it was the idlest
//	BYE server shutting down
//	ERR line too long               the rest of the line is not read
//	ERR more than a heartbeat per 1s
//	ERR too many connections        in all, or of this peer
//	ERR server shutting down        this one came too late
//
// Config.Line sees each line first, for a protocol of the program's own; where it panics, the
// answer is ERR internal error.
//
// A peer that does not read its answers is closed without a word, when more than
// Config.MaxOutbound bytes wait for it.
//
// # Policies
//
// Config.Keepalive has them, see docs/policies.md; all are off unless set. Update
// changes them, and most of the rest, while the server runs.
//
// # Going down
//
// First only Draining says so, for Config.DrainDelay; then each connection gets its
// goodbye, spread over Config.Drain. A server with a Listener that somebody else keeps
// open leaves those that come meanwhile to the next one.
package server
