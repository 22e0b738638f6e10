// Package redis keeps the tasks of a timeout centre in Redis 7.0 or newer, alone or as a
// Cluster.
//
//	engine, err := redis.Open(ctx, "redis://localhost:6379/0", redis.Config{})
//
// What is promised is what Redis promises: with appendfsync always nothing is lost that was
// answered; with everysec the last second can be lost with the server, and what a replica has
// not heard with a failover. Where that is too little, put the engine in front of SQL.
//
// # How it is kept
//
// Each slot of a topic has keys of its own, with a hash tag, so all of them are on one server
// and a script changes them at once: five sorted sets of ids by state, scored with the time
// that matters there; a hash of bodies, one of attempts, for tasks that were leased, and one
// of the slot's own fields. A script handles at most 256 tasks. Redis's own clock decides
// what is due.
//
// Versions and leases have numbers from a counter per slot. A number is also never behind the
// server's clock in microseconds. So a Redis that was flushed, or has lost its last writes, gives no
// number twice, unless its clock is behind by more than the time that was lost.
//
// A Cluster has the records of the topics on one master, and copies of them on the others. Without
// the record of a topic nobody finds its keys. If it is lost, the copies bring it back.
//
// # How a topic grows
//
// The slots of a topic are one generation. Growing adds one: the old slots are sealed, from
// when on they accept nothing; then the new ones are made, which number on from the highest
// of the old; then tasks are moved. A task is copied to its new slot, which notes its id and
// takes no id twice, and is deleted from the old one after that. Whoever wants to do something
// to a task while there are two generations moves it first. The rest is moved batch by batch,
// by Expire and by Upkeep, the earliest first. A process may stop between any two steps, or
// stand still and go on later: what it has begun is finished by the next one.
package redis
