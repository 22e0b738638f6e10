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
// Only a whole line is a heartbeat. What the server says unasked, before it closes
// a connection:
//
//	BYE idle timeout 30s       no line for the timeout
//	BYE server shutting down
//	ERR line too long          the rest of the line is not read
//	ERR too many connections
//	ERR server shutting down
//
// A peer that does not read its answers is closed without a word, when more than
// Config.MaxOutbound bytes wait for it.
package server
