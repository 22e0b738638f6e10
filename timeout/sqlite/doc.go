// Package sqlite keeps the tasks of a timeout centre in a file, for one machine: nothing to
// install, and tasks that survive a crash.
//
//	engine, err := sqlite.Open("tasks.db", sqlite.Config{})
//
// What was answered survives the end of the process, also by SIGKILL. A power cut can take
// the last seconds, but never a part of a transaction, unless Config.Sync is SyncFull.
// Several processes of one machine can use the file at the same time; on a network file
// system it must not be. The clock is that of the machine.
//
// A program that has tables of its own in the same file can set, move and remove tasks in
// its own transactions: see SetTx.
//
// On a full disk Set is engine.ErrFull, and so is Ready. The engine keeps 8 MiB for that in a file beside
// the database, whose name ends with -reserve. With them tasks are leased, finished and removed. When the
// disk has room again, or the file has as much to reuse, Set takes tasks again. The database does not
// shrink by itself.
//
// # How it is kept
//
// Each task is a row. Its time is at: the action time while the task waits, and the end of the
// lease while it runs. An index by topic, state and at finds what is due. A move to a later time
// writes the column due and leaves at alone, so it touches no index: what waits is due when both
// have passed. All tables have names that begin with hw_.
//
// Numbers of versions and leases come from a counter in the file. It is never behind the clock, in
// microseconds, so no number is given twice, even if a power cut takes the last commits back. Other
// processes watch the counter, and look for due tasks when it has moved.
//
// There is one connection that writes, since SQLite has one writer at a time, and some that
// read meanwhile. A transaction has at most 512 tasks, so nobody waits long. Looking for what
// is due writes nothing where nothing is.
//
// The log of executions has attempts that failed, and those that succeeded where the topic
// has a Retain. It begins anew when a task is set, and without a Retain when another life of the
// task begins. It goes with its task, and has nothing that is older than seven days or the
// longest Retain.
package sqlite
