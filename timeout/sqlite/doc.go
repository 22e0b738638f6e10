// Package sqlite keeps the tasks of a timeout center in a file, for one machine. There is nothing to
// install, and the tasks survive a crash.
//
//	engine, err := sqlite.Open("tasks.db", sqlite.Config{})
//
// An answered call survives the end of the process, also by SIGKILL. A power cut can lose the last
// seconds, but never a part of a transaction. With SyncFull in Config.Sync it loses nothing. Several
// processes of one machine can use the file at the same time. The file must not be on a network file
// system. The clock is the machine's.
//
// A program with tables of its own in the same file can set, move and remove tasks in its own
// transactions: see SetTx.
//
// On a full disk Set and Ready return engine.ErrFull. For this case the engine keeps 8 MB in a file
// beside the database, with a name ending in -reserve. They are enough to lease, finish and remove
// tasks. Set takes tasks again when the disk has room again, or the file has as much to reuse. The
// database does not shrink by itself.
//
// # How it is kept
//
// Each task is a row. Its column at is the action time while the task waits, and the end of the lease
// while it runs. An index by topic, state and at finds the due tasks. A move to a later time writes
// the column due and leaves at alone, so it touches no index. A waiting task is due when both times
// have passed. A list, and a look for due tasks, write such tasks anew that they come upon, with both times
// the same. The names of all tables begin with hw_.
//
// A counter in the file gives the numbers of versions and leases. It is never behind the clock, in
// microseconds. So no number is given twice, even if a power cut takes the last commits back. Other
// processes watch the counter, and after a change they look in which topics the first task is due soon, or
// earlier than before.
//
// One connection writes, because SQLite has one writer at a time. Four connections read meanwhile. A
// transaction has at most 512 tasks, so nobody waits long. A look for due tasks writes nothing if it
// finds none. The writer moves its log to the database, a thousand pages at a time. As long as somebody reads, such as a
// backup, the log grows instead. Another connection moves a log of more than 16 MB, and its file is shortened in steps
// of 16 MB, so nobody waits for all of it.
//
// The log of executions has failed attempts. If the topic has a Retain, it has successful ones, too.
// It begins anew when a task is set. Without a Retain it also begins anew with another run of the
// task. It goes with its task. Entries older than the topic's RetainLog are deleted.
package sqlite
