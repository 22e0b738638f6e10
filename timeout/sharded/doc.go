// Package sharded makes one engine of several: each task is in one of them, by a hash of its
// topic and its slot basis (see timeout.Hash).
//
//	var shards []timeout.Engine
//	for _, url := range urls {
//		shard, err := postgres.Open(ctx, url, postgres.Config{})
//		...
//	}
//	engine, err := sharded.New(ctx, shards, sharded.Config{})
//
// Batches are split, sent to the shards at the same time, and answered in order. What one shard
// can't do the others go on with: its tasks wait until it answers again, and calls for them
// fail at once meanwhile. Open has shards opened when they can be.
//
// Topics are on all shards, and the first one decides what they are: while it is away none can
// be made, changed or dropped, and the list of nodes stays as it is. Each shard's own clock
// decides for its tasks. With a number of shards that is a power of two, a topic with at least
// as many slots has each slot in one shard, so that nodes ask only those of their own slots;
// that is faster, and nothing else depends on it. Within a slot that is in several shards, the
// order of tasks is that of each shard.
//
// # Growing
//
// Where a task is depends on the number and the order of the shards. So each shard is marked
// with its place when it is used for the first time, and another list is refused. To have room
// for growth, have more shards than servers from the beginning: 16 databases on two servers,
// say. A database can move to another server, with everything that is in it, by the means of
// its maker (a dump, or a replica that is promoted): only its URL in the list changes, and no
// task changes its place. To change the number itself, have a second engine with the new list
// for what is set from then on, and let the first one run until it is empty.
package sharded
