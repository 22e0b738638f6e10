// Package server is a TCP server on gnet. It closes silent connections: the whole of
// Heartwheel at work, to embed or to copy from.
//
//	s, err := server.New(server.Config{
//		Addr:   "127.0.0.1:9000",
//		Config: keepalive.Config{Timeout: 30 * time.Second},
//	})
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
// Only a whole line is a heartbeat. The server says unasked:
//
//	PING         a probe, if there are probes: any line is an answer, also BEAT
//	GOAWAY 10s   the connection will be closed in 10s, because of its age, or since it is shed
//
// and before it closes a connection:
//
//	BYE idle timeout 30s            no line for the timeout
//	BYE first message timeout 5s    no line at all
//	BYE read timeout 30s            nothing read for ReadIdle
//	BYE write timeout 30s           nothing sent for WriteIdle
//	BYE no answer to PING
//	BYE maximum age 1h0m0s
//	BYE closed to make room         it was one of the idlest
//	BYE server shutting down
//	BYE connect again               it was shed, see keepalive.Keeper.Shed
//	BYE local                       the program has closed it
//	ERR line too long               the rest of the line is not read
//	ERR more than a heartbeat per 1s
//	ERR less than 10 bytes per second
//	ERR too many connections        in all, or of this peer
//	ERR server shutting down        this one came too late
//
// Config.Line sees each line first, for a protocol of the program's own. If it panics, the
// answer is ERR internal error.
//
// A peer is closed without a word if it does not read its answers, and more than
// Config.MaxOutbound bytes wait for it.
//
// # Policies
//
// Config has the policies of package keepalive, see docs/policies.md. All are off unless set.
// Update changes them, and most of the rest, while the server runs.
//
// # Going down
//
// For Config.DrainDelay only Draining reports the end. Then each connection gets its farewell,
// spread over Config.Drain. If somebody else keeps the Listener open, connections made during the
// farewells wait for the next server.
package server
