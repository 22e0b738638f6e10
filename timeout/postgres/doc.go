// Package postgres is an engine.Engine in a PostgreSQL database, version 12 or newer. It can set
// tasks in the transaction of your own data, and suits centers with a database anyway.
//
// # How it works
//
// A task is a row of hw_tasks, found by its key. A second index has the state and the time: the
// action time of a waiting task, the end of the lease of a running one. A move to a later time
// leaves the index as it is, with the earlier time. The node that finds the task there files it
// again. Set is an INSERT … ON CONFLICT of up to a thousand rows. Lease takes the first rows of
// the index with FOR UPDATE SKIP LOCKED, so nodes don't wait for each other. Most commands are one
// transaction and one round trip for each thousand tasks. A Move of tasks not waiting needs a second
// one. Lease may look for due tasks before it leases. The next due time comes with the leases, or by
// another look after them. A List of waiting tasks files moved ones again that it comes upon. The
// server's clock decides. Versions and lease numbers come from a sequence. A crash without
// synchronous_commit, a failover or a restored backup may set it back. So a new connection raises
// it above the server's clock in microseconds, by a million at least, and waits until that is on disk.
// It does so unless one that has raised it is still open: these share an advisory lock as their flag.
// In a transaction of yours, the commit waits. A role needs the rights USAGE and UPDATE on the sequence
// for that. Never set it back while the engine has connections. A logical restore does so: stop the
// nodes for it. Otherwise the lease of a task can have the number of an earlier one, and two workers
// could settle it.
//
// # Transactions held open
//
// As long as a transaction is open anywhere in the database, such as a backup or a forgotten session, the server
// keeps the dead rows of all tasks that are leased, settled or removed meanwhile. A scan from the start of the index
// reads them all. So the engine remembers for each topic before which time no live row is, and Lease begins there.
// In the background it looks from the start again: a second after the last look, or ten times as long as that took, but
// at most 30 seconds.
// It remembers a time at least two seconds before the clock. Set, Move and Lease tell all engines of a task that they
// file more than a second before the clock, by a number of the sequence hw_past. If the number has changed, or the
// clock was stepped back, Lease begins at the start. If a transaction commits a task more than a second after it
// filed it, other engines find the task by a look, as what processes of an earlier version file in the past. That takes
// until the end of the next look: for looks of a few milliseconds a second, and for slow ones half a minute and the time
// of one look. If looks fail, which they do after a minute, Lease begins at the start after three minutes at most.
// Each task filed in the past makes all engines begin at the start for a second or two, so setters' clocks should not
// be slow by a second. A role needs the right USAGE on hw_past. OldestTransaction says how long a transaction has been
// open. The tables grow meanwhile.
//
// An answered call is as durable as a commit. The server's setting synchronous_commit decides.
//
// # Beside your tables
//
// SetTx, MoveTx and RemoveTx work in your transaction: the change is made if and only if you
// commit. The names of tables, sequences and channel begin with hw_, in Config.Schema. Open and New
// run the migrations; of several at the same time, one does.
//
// # Limits
//
// A node with some of a topic's slots reads past the due tasks of the others, at most 10,000 of them.
// If none of these is its own, it leases theirs. If the server takes no more connections, calls wait for
// those of the pool. A connection pooler in transaction mode, such as PgBouncer, needs
// default_query_exec_mode=exec in the URL. Wake hears nothing through it, so Config.ListenURL has
// to name the server itself. If the pooler keeps the engine's connections through a failover, a number
// may come twice.
package postgres
