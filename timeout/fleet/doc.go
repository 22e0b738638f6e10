// Package fleet knows which of many gateways has which session, and says when a session has
// ended, also where its gateway has died.
//
// A session has a lease in Redis, which its node extends every half minute, whatever the rate at
// which clients are heard: a heartbeat writes nothing. When a node dies, its leases end, and
// another node tells of it. For millions of sessions, nodes can have leases instead: see
// Config.NodeLease.
//
//	node, err := fleet.New(ctx, fleet.Config{
//		URL: "redis://localhost", Node: "gateway-1:8080", OnOffline: offline,
//	})
//	...
//	session, err := node.Register(ctx, conn, "user-7", nil) // the connection has said who it is
//	defer session.Close()                                   // Config.Keeper can do that
//
// # What it promises
//
// A session has one owner: who registers it takes it from whoever had it, whose connection is
// closed. Each registration has an epoch, higher than those before, by which the owner is known
// to Redis: whoever wakes up late is refused.
//
// OnOffline is told of each session that has ended and was not registered again, at least once,
// and of none whose lease, or whose node's lease, is still extended. Where nobody could extend
// leases, since Redis was away, nothing expires for a lease.
//
// # When not to use it
//
// On one machine, package keepalive says when a connection ends. Where it is enough to know
// of a dead node's sessions after minutes, a key with an expiry for each will do.
package fleet
