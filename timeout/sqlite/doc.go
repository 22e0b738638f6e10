// Package sqlite keeps the tasks of a timeout centre in one file, with SQLite in pure Go: no
// server, and no C compiler.
//
//	engine, err := sqlite.Open("tasks.db", sqlite.Config{})
//
// What was answered survives the process, however it ends. What it takes to survive the
// machine as well, when its power fails, is Config.Sync. Several processes of one machine may
// have the same file open; it must not be on a network's file system, where locks and WAL
// files don't work.
//
// # How it is kept
//
// A table of tasks has one time per task: the action time of one that waits, the end of the
// lease of one that runs. An index by topic, state, slot and that time tells what is due,
// counts, and makes pages. A writer at a time changes at most 512 tasks per transaction;
// readers don't wait for it. To look whether something is due is to read.
//
// The clock is this machine's, in milliseconds since the epoch. Numbers of versions and leases
// come from one counter for everything, which is never set back.
//
// # In your own transaction
//
// SetTx, MoveTx and RemoveTx take part in a transaction of yours: open the same file with
// database/sql and the driver of modernc.org/sqlite, keep your tables in it, and have your
// transactions begin with BEGIN IMMEDIATE (_txlock=immediate) or with one of these calls,
// since SQLite refuses a transaction that has read before it writes where somebody else has
// written meanwhile.
//
// # How a topic grows
//
// A task keeps its hash, so a new number of slots is there at once. What waits keeps the slot
// that it was in, which is one of the new ones too and is served by its owner, until Upkeep
// has given it another. So nothing can be lost by growing.
package sqlite
