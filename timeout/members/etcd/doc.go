// Package etcd lets timeout centers find each other through etcd, 3.4 or newer. A node is a key
// with a lease. If no heartbeat comes for the time of the lease, etcd removes the key. The node with
// the oldest key leads.
//
//	members, err := etcd.Open([]string{"http://10.0.0.1:2379"}, etcd.Config{})
//	...
//	defer members.Close()
//	center, err := timeout.New(engine, timeout.Config{Members: members})
//
// An engine knows its nodes without this package. Use it for many centers, to take the heartbeats off
// the engine, or to notice at once when a node comes or goes: Members is an engine.Watcher.
//
// # What it costs
//
// A heartbeat is two round trips: one renews the lease and writes nothing, one reads all nodes. When a
// node comes or goes, each of them reads all of them once. While two nodes have one name, each asks
// etcd at each heartbeat for the lease of the other: that is one more round trip.
//
// # While etcd is away
//
// A heartbeat fails after half the ttl, or after a second if that is longer. Centers go on with the
// last view, but topics with limits for all nodes stop after the ttl. No lease ends while no server is there to end it, and each has its whole time again
// when a server comes back. So after an outage the view is mostly the one from before. If its
// lease has ended, a node joins again with its next heartbeat, in the last place.
package etcd
