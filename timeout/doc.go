// Package timeout is a timeout centre: deadlines that survive a crash, are spread over
// machines, and are consumed at least once. What package wheel does in one process for a
// million connections, it does with the same verbs (set, move, remove, expire) for tasks
// that are kept in SQLite, PostgreSQL or Redis.
//
//	engine, err := sqlite.Open("tasks.db", sqlite.Config{})
//	...
//	centre, err := timeout.New(engine, timeout.Config{})
//	...
//	centre.Handle("orders", func(ctx context.Context, task timeout.Task) error {
//		return cancelUnpaid(ctx, task.ID)
//	})
//	go centre.Run(ctx)
//	...
//	centre.Set(ctx, timeout.Task{Topic: "orders", ID: "4711", After: 15 * time.Minute})
//	centre.Remove(ctx, timeout.Key{Topic: "orders", ID: "4711"}) // paid
//
// # Promises
//
//   - Nothing fires early, by the engine's clock; the clocks of the nodes decide nothing.
//   - What was set fires at least once, whatever crashes: a task is leased, not taken, and is
//     only finished when its handler has said so.
//   - One set never fires twice, but for a cause: a handler that failed, or whose lease ended
//     before it did. Setting a task anew ends what was set before, be it waiting or running.
//   - Every answer is exact: it tells in which state the task was when the call took effect.
//   - A task, a topic or a target that always fails holds up no other.
//
// # How it works
//
// A Center gives batches to an Engine, which has each batch done atomically, task by task.
// An engine keeps one time for each task: the action time of one that waits, the end of the
// lease of one that runs. What is due is what has a time that has passed; so a task whose
// worker died is due again without anybody having to notice. A lease has a number that
// nothing else ever gets, and only who has the number of the last one can finish the task.
package timeout
