// Package engine is what a timeout center asks of the store that keeps its tasks. It is for people
// who write an engine; programs use package timeout. Package enginetest/toy is an engine of 400 lines, to read first.
//
// An [Engine] takes batches, and does each task of a batch atomically. It keeps one time for each
// task: the action time while the task is Pending, and the end of the lease while it is Running. A
// task is due when that time has passed. So a task whose worker has died is due again, and nobody has
// to notice the death. A lease has a number that no other lease ever gets. Only the holder of the last
// number can settle the task.
//
// An engine can do more: [Log], [Waker], [Peeker], [Parted], [Primary], and [Watcher] for its list of nodes. The
// suite of package enginetest says whether it does all of this right.
package engine
