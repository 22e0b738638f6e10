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
// Each slot of a topic has keys of its own, with a hash tag. So all of them are on one server,
// and a script changes them at once: five sorted sets of ids by state, scored with a time; a hash
// of bodies; one of attempts, for tasks with a lease now or before; and one of the slot's own
// fields. A script handles at most 256 tasks. Without a Cluster, one run of it can be about several
// slots, and then about 128 tasks at most. Redis's own clock decides what is due.
//
// Versions and leases have numbers from a counter per slot. A number is also never behind the
// server's clock in microseconds. So Redis gives no number twice after a flush or the loss of its
// last writes, unless its clock is behind by more than the lost time.
//
// An operator or a restore may have deleted a part of a task. Without its body the task is lost: Expire logs that when
// the task is due, and all other calls miss it. Without a record of its attempts a running task begins anew at the
// end of its lease.
//
// A Cluster has the records of the topics on one master, and copies of them on the others. Without
// the record of a topic nobody finds its keys. If it is lost, the copies bring it back.
//
// # If memory is short
//
// At its maxmemory Redis takes no new tasks. Done, dead and removed tasks must not fill it. While more
// than three quarters of the maxmemory are in use, Upkeep deletes the oldest of them, until they have an
// eighth. It begins with the slots that have the most, so a topic with few dead tasks keeps them. A
// center with the default TTL calls Upkeep every 15 s or more often: the new tasks of that time should fit into the
// last quarter.
//
// # How a topic grows
//
// The slots of a topic are one generation. Growing adds one in three steps. The old slots are
// sealed, and accept nothing from then on. The new ones are made, and number on from the highest of
// the old. Then tasks are moved: a task is copied to its new slot and deleted from the old one after
// that. The new slot notes its id and takes no id twice. While there are two generations, each verb
// moves its tasks first. Expire and Upkeep move the rest batch by batch, the earliest first. A
// process may stop between any two steps, or stand still and go on later: the next one finishes
// its work.
package redis
