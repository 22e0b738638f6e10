// Package zookeeper has the nodes of timeout centres known by ZooKeeper. A node is a session
// and an ephemeral sequential znode: when the session ends, ZooKeeper removes the znode. The
// smallest one leads.
//
//	members, err := zookeeper.Open([]string{"10.0.0.1:2181"}, zookeeper.Config{})
//	...
//	defer members.Close()
//	centre, err := timeout.New(engine, timeout.Config{Members: members})
//
// Engines know their nodes themselves, and need nothing else. This is for many centres on an
// engine that has better to do, or that are to notice at once when one comes or goes: package
// zookeeper is a timeout.Watcher.
//
// A session is a node's own, since its timeout is the ttl of the node's beats: so there is no
// constructor for a connection that you have. ZooKeeper keeps timeouts within 2 and 20 of its
// ticks, which is 4s to 40s as it is delivered. A node that goes on running, and beats no
// more, leaves by itself after its ttl.
//
// # What it costs
//
// A beat is one round trip that reads no list while nothing has changed. Each node watches the
// next smaller one, so that when the leader goes only the one that leads next is told at once.
// The slots of all depend on who is there, so the list is watched as well: when one of n nodes
// comes or goes, each of the others reads n names, and the data of those that it does not
// know; when one serves other topics, each reads the data of all. They do so spread over a
// fifth of a second.
//
// # While ZooKeeper is away
//
// Beats fail within half of the ttl, or a second, and centres go on with the last view.
// Sessions do not end while no server is there to end them. A node whose session has ended
// joins again with its next beat, as the last one.
//
// # Terms
//
// The term of a view is the time in milliseconds when the parent of all nodes was made, and
// the number of changes since: it is the same for all that have the same view. A store that
// was lost, and began anew, goes on with higher terms.
package zookeeper
