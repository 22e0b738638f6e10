// Package index puts an engine that is quick to tell what is due in front of one that keeps
// it for good: a wheel in memory in front of a table, which is the wheel's overflow then, or
// Redis in front of SQL.
//
//	truth, err := postgres.Open(ctx, url, postgres.Config{})
//	wheel, err := memory.New(memory.Config{})
//	...
//	engine, err := index.New(truth, wheel, index.Config{})
//
// The truth has every task, and every verb is done there first; the index has only keys,
// versions and times, of what is due within Config.Window. What the index says is due is
// leased in the truth, key by key, if the truth says so too. So nothing can be lost, run
// early or run twice by what the index does not know, or knows wrongly: a crash between both,
// an index that has been emptied, a clock that is ahead. What is in the truth and not in
// the index is added by scans, for which the truth reads keys in the order of their time.
//
// An index that is away, hangs or is full holds up nothing for long: then the truth is asked
// what is due, which is slower and as right.
//
// The design is that of Alibaba's timeout centre (jobs in a database, ids in Redis) and of
// NetEase's scheduler (a queue in memory in front of a database), with what they lack: the
// repair, the claim, and that what is set is written before it is queued.
package index
