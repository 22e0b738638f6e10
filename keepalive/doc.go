// Package keepalive closes a connection when its peer has fallen silent, and never before.
//
//	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
//	...
//	ln = k.Listener(ln) // below TLS, if there is TLS
//	conn, err := ln.Accept()
//
// What counts as life depends on the protocol, so choose an [Activity] first:
//
//   - Peers send heartbeats, or speak first (chat, MQTT, games): ActivityRead, the default. On
//     Linux ActivityKernel is the same without any work per read.
//   - Only whole messages are to count: ActivityManual, and call [Touch] for each.
//   - Peers only listen (push, streams): ActivityReadWrite. A peer lives as long as it
//     acknowledges the bytes sent to it.
//   - net/http: package httpkeepalive, with any of them.
//   - WebSocket: package wskeepalive, with any of them.
//   - gnet: package gnetkeepalive.
//
// Each accepted connection has one deadline in a timing wheel. A sign of life moves the
// deadline, and costs nothing else: there is no goroutine and no timer per connection. When the
// deadline has passed, the Keeper asks the socket whether the peer is really silent. Then it
// closes the connection, and a pending Read returns [ErrIdleTimeout].
//
// # The handle of a connection
//
// [Of] finds the [Guard] of a connection, also through TLS: a timeout of its own, a hold while
// the program is busy, a value of the program's, a key of its user, a context.
//
// # Policies
//
// [Config] has more reasons to end a connection, and to keep it: a time for the first message,
// probes, an age, rates, room, pressure. All are off unless set, and none makes a touch slower but Advise.
// docs/policies.md goes through them.
//
// # Not to be confused
//
// TCP keepalive finds out whether the other machine answers. To it, a hanging program is alive.
// The package of this name in gRPC has all of this for gRPC's own connections.
//
// # When not to use this package
//
// A server with a read deadline for each request needs nothing else. The Keeper never changes
// the program's deadlines, so both can be used together.
package keepalive
