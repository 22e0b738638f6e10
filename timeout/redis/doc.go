// Package redis keeps the tasks of a timeout center in Redis 7.0 or newer, alone or as a
// Cluster.
//
//	engine, err := redis.Open(ctx, "redis://localhost:6379/0", redis.Config{})
//
// The promise is Redis's own. With appendfsync always, nothing is lost after its answer. With
// everysec, the last second can be lost with the server. A failover loses the changes that the
// replica has not heard of. If that is too little, put the engine in front of SQL.
//
// # How it is kept
//
// A topic has as many partitions as it has slots when it is made, and keeps them: a task is in one of them for ever, by its
// id. Each partition has keys of its own, with a hash tag. So all of them are on one server,
// and a script changes them at once: five sorted sets of ids by state, scored with a time; a hash
// of bodies; one of attempts, for tasks with a lease now or before; and one of the partition's own
// fields, with the logs of executions if Config.Executions is set. A script handles at most 256 tasks. Without a Cluster,
// one run of it can be about several partitions, and then about 128 tasks at most. Redis's own clock decides what is due.
//
// More slots are a mask over the partitions, and move nothing. Slot s of a topic with p partitions is about partition s mod p. So
// several slots share one, and their nodes share its tasks. In a Cluster a topic is on as many servers as it has
// partitions, at most.
//
// Versions and leases have numbers from a counter per partition. A number is also never behind the
// server's clock in microseconds. So Redis gives no number twice after a flush or the loss of its
// last writes, unless its clock is behind by more than the lost time.
//
// An operator or a restore may have deleted a part of a task. Without its body the task is lost: Lease logs that when
// the task is due, and all other calls miss it. Without a record of its attempts a running task begins a new run at the
// end of its lease.
//
// A Cluster has the records of the topics on one master, and copies of them on the others. Without
// the record of a topic nobody finds its keys. If it is lost, the copies bring it back.
//
// # Executions
//
// With Config.Executions a log has the last attempts of each task: what Engine.Executions returns. An attempt has about 50
// bytes, and its error. While more than three quarters of the maxmemory are in use, logs get no attempt. Engines with
// different settings may share a Redis. Those of a version before set and delete tasks without a look at their logs. Such a
// log goes with the next set of the same id by this version, or with its topic.
//
// # If memory is short
//
// At its maxmemory Redis takes no new tasks. Done, dead and removed tasks must not fill it. While more
// than three quarters of the maxmemory are in use, Maintain deletes the oldest of them, until they have an
// eighth. It begins with the partitions that have the most, so a topic with few dead tasks keeps them. A
// center with the default TTL calls Maintain every 15 s or more often: the new tasks of that time should fit into the
// last quarter.
//
// # Topics of a version before
//
// In versions before, a topic with more slots got other keys, and its tasks were moved while it was used. A topic in the
// middle of that is moved to its end by the first call of this version, and other calls about it wait. Processes of
// the version before may run meanwhile, and after that.
//
// They know no topic with more slots than partitions. Once they read its record again, their calls about it fail with an
// error about a later version, and its tasks wait for processes of this version. So give a topic more slots when all processes are
// of this version.
package redis
