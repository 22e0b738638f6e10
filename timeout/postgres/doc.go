// Package postgres is a timeout.Engine in a PostgreSQL database, of version 12 or newer: for
// tasks that are to be set in the transaction of what they are about, and for centres that
// have a database anyway.
//
// # How it works
//
// A task is a row of hw_tasks, found by its key and by what it waits for: one index has the
// state and the time, which is the action time of a task that waits and the end of the lease
// of one that runs. A move to a later time leaves the index as it is, which has the task under
// an earlier time then: who finds it there files it again. Set is an INSERT … ON CONFLICT of up
// to a thousand rows, Expire takes the first of the index with FOR UPDATE SKIP LOCKED, so that
// nodes don't wait for each other. Each command is one transaction and one round trip, but for a
// Move of what does not wait. The server's clock decides. Versions and numbers of leases come from
// a sequence, which the database must not be made to go back.
//
// Where a commit is durable, which is the server's setting synchronous_commit, so is what a
// call has answered.
//
// # Beside your tables
//
// SetTx, MoveTx and RemoveTx do their work in a transaction of yours: the task is there when
// and only when that commits. Tables, sequence and channel have names that begin with hw_, in
// Config.Schema; migrations are run by Open and New, by one of all that start at once.
//
// # Limits
//
// A node that is asked for some of a topic's slots reads past what is due in the others: with
// many nodes and a large backlog that costs. A connection pooler that works by transaction
// needs default_query_exec_mode=exec in the URL, and does not let Wake hear anything: then
// Config.ListenURL has to name the server itself.
package postgres
