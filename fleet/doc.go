// Package fleet keeps track of sessions across many gateways. It knows the gateway of each
// session, and reports the end of a session even if its gateway has died.
//
// Each session has a lease in Redis. Its node extends the lease every half minute, however
// often the client is heard: a heartbeat writes nothing. When a node dies, its leases end, and
// another node reports the ends. For millions of sessions, nodes can have leases instead: see
// Config.NodeLease.
//
//	node, err := fleet.Open(ctx, "redis://localhost", fleet.Config{Node: "gateway-1:8080", OnOffline: offline})
//	...
//	session, err := node.Register(ctx, conn, "user-7", nil) // the connection has said who it is
//	defer session.Close()                                   // Config.Keeper can do that
//
// # What it promises
//
// A session has one owner. Registering a session takes it from its previous owner, and that
// owner's connection is closed. Each registration has an epoch, higher than those before it.
// Redis knows the owner by the epoch, and refuses a node that wakes up late.
//
// OnOffline is told at least once of each ended session, unless it was registered again.
// It is never told of a session while its lease, or its node's lease, is still extended. If
// Redis was away and nobody could extend leases, no lease expires for that.
//
// # When not to use it
//
// On one machine, package keepalive says when a connection ends. If it is enough to learn of a
// dead node's sessions after minutes, one expiring key per session will do.
package fleet
