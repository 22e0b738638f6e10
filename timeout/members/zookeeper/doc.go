// Package zookeeper lets timeout centers find each other through ZooKeeper. A node is a session
// with an ephemeral sequential znode. When the session ends, ZooKeeper removes the znode. The
// node with the smallest number leads.
//
//	members, err := zookeeper.Open([]string{"10.0.0.1:2181"}, zookeeper.Config{})
//	...
//	defer members.Close()
//	center, err := timeout.New(engine, timeout.Config{Members: members})
//
// An engine knows its nodes without this package. Use it for many centers, to take the heartbeats off
// the engine, or to notice at once when a node comes or goes: Members is an engine.Watcher.
//
// Each node has a session of its own, because the ttl of its heartbeats is the session's timeout. So
// no constructor takes an existing connection. Watch has another session, for each of its
// connections. ZooKeeper limits timeouts to between 2 and 20 of its ticks, by default 4s to 40s. A
// process can hang and still keep its session alive, so a node that has sent no heartbeat for its ttl leaves
// by itself.
//
// # What it costs
//
// While nothing changes, a heartbeat is one round trip, and reads no list. Each node watches the next
// smaller one. So when the leader goes, ZooKeeper tells only the next leader at once. The slots
// depend on the whole list, so each node also watches the list:
//   - When one of n nodes comes or goes, each of the others reads n names, and the data of the
//     nodes new to it.
//   - When a node changes its topics, each node reads the data of all.
//
// The nodes spread these reads over a fifth of a second.
//
// While two nodes have one name, each writes its znode at each heartbeat, and looks at that of the
// other. The session of a killed process only runs out, and writes nothing.
//
// # While ZooKeeper is away
//
// A heartbeat fails after half the ttl, or after a second if that is longer. Centers go on with the
// last view, but topics with limits for all nodes stop after the ttl. If ZooKeeper has lowered the ttl, it ends
// sessions before that, and more than the limit can run. Sessions do not end while no server is there to end them. If its session has ended,
// a node joins again with its next heartbeat, in the last place.
package zookeeper
