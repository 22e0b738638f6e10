// Package etcd has the nodes of timeout centres known by etcd, 3.4 or newer. A node is a key
// with a lease: when nobody has beaten for it for that long, etcd removes the key. Who came
// first leads.
//
//	members, err := etcd.Open([]string{"http://10.0.0.1:2379"}, etcd.Config{})
//	...
//	defer members.Close()
//	centre, err := timeout.New(engine, timeout.Config{Members: members})
//
// Engines know their nodes themselves, and need nothing else. This is for many centres on an
// engine that has better to do, or that are to notice at once when one comes or goes: package
// etcd is a timeout.Watcher.
//
// # What it costs
//
// A beat is two round trips: the lease is kept, which writes nothing, and all nodes are read.
// When a node comes or goes, all of them read all of them once.
//
// # While etcd is away
//
// Beats fail within half of the ttl, or a second, and centres go on with the last view. Leases
// do not run out while no server is there to end them, and are whole when one comes back; so
// after an outage the view is mostly the one from before. A node whose lease has ended joins
// again with its next beat, as the last one.
//
// # Terms
//
// The term of a view is the revision of etcd at which it was read first, counted from the time
// in milliseconds at which the first node ever came. A store that was lost, and began anew with
// revision 1, so goes on with higher terms.
package etcd
