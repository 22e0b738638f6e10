// Package index puts a fast engine in front of a durable one. The fast engine is the index and
// finds the due tasks; the durable engine is the primary and keeps the tasks. Examples are an engine
// in memory in front of a table, or Redis in front of SQL.
//
//	primary, err := postgres.Open(ctx, url, postgres.Config{})
//	near, err := memory.New(memory.Config{})
//	...
//	engine, err := index.New(primary, near, index.Config{})
//
// The primary has every task, and executes every verb first. The index has only the keys, versions
// and times of the tasks that are due within Config.Window. When the index finds a task due, the
// engine claims it in the primary, and the primary may refuse. So an index that is empty, wrong or fast
// loses no task, and runs none early or twice. The same holds after a crash between the two
// writes. Scans of the primary, in the order of time, add missing tasks to the index.
//
// An index that is away, hangs or is full delays no call for long. The engine then asks the primary
// for due tasks: slower, and just as right.
//
// The design is that of Alibaba's timeout center (jobs in a database, ids in Redis) and of
// NetEase's scheduler (a queue in memory in front of a database). It adds three things: the repair,
// the claim, and writing a task before queueing it.
package index
