// Package timeout is a timeout center: deadlines that survive a crash, are spread over machines, and
// are consumed at least once. Package wheel does this in one process for a million connections. This
// package has the same verbs (set, move, remove, expire) for tasks in SQLite, PostgreSQL or Redis.
//
//	engine, err := sqlite.Open("tasks.db", sqlite.Config{})
//	...
//	center, err := timeout.New(engine, timeout.Config{})
//	...
//	center.Handle("orders", func(ctx context.Context, task timeout.Task) error {
//		return cancelUnpaid(ctx, task.ID)
//	})
//	go center.Run(ctx)
//	...
//	center.Set(ctx, timeout.Task{Topic: "orders", ID: "4711", After: 15 * time.Minute})
//	center.Remove(ctx, timeout.Key{Topic: "orders", ID: "4711"}) // paid
//
// # Promises
//
//   - Nothing fires early, by the engine's clock; the clocks of the nodes decide nothing.
//   - A set fires at least once, whatever crashes: a task is leased, not taken, and is only
//     finished when its handler has said so.
//   - One set never fires twice without a cause: a handler that failed or asked for it with Again, a
//     topic with Every, or a lease that ended before its handler did. Setting a task anew ends the
//     earlier set, waiting or running.
//   - Every answer is exact: it tells the state of the task at the moment of the call's effect.
//   - A task, a topic or a target that always fails holds up no other.
//
// # How it works
//
// A Center gives batches to an engine. The engine does each batch atomically, task by task. Package
// engine has the contract. An engine keeps one time for each task: the action time of a waiting task,
// the end of the lease of a running one. A task is due when that time has passed. So the task of a
// dead worker is due again, and nobody has to notice the death. Each lease has a number that is never
// used again. Only the holder of the last number can finish the task.
package timeout
