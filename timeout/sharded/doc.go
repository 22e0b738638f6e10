// Package sharded makes one engine of several. A hash of a task's topic and slot basis chooses its
// shard (see engine.Hash).
//
//	var shards []engine.Engine
//	for _, url := range urls {
//		shard, err := postgres.Open(ctx, url, postgres.Config{})
//		...
//	}
//	engine, err := sharded.New(ctx, shards, sharded.Config{})
//
// Batches are split, sent to the shards at the same time, and answered in order. If a shard is
// away, the others go on. Its tasks wait until it answers again; meanwhile calls for them fail at
// once. Open also starts without some shards, and opens them later.
//
// Topics are on all shards, and the first shard decides. While it is away, no topic can be made,
// changed or dropped, and the list of nodes stays as it is. Each shard's own clock decides for its
// tasks. If the number of shards is a power of two, a topic with at least as many slots has each
// slot in one shard. Then a node asks only the shards of its own slots. That is faster; nothing
// else depends on it. Lease is ordered only within each shard.
//
// Each shard keeps an equal part of Topic.MaxDead, rounded up. So a topic keeps fewer dead tasks than
// MaxDead if they are spread unevenly. If their ids have the same text in braces, all are in one shard.
//
// # Growing
//
// The shard of a task depends on the number and the order of the shards. So the first use marks
// each shard with its index, and another list is refused. To have room for growth, begin with more
// shards than servers, for example 16 databases on two servers. A whole database can move to
// another server by its own means (a dump, or promoting a replica). Only its URL in the list
// changes, and no task changes its shard. To change the number of shards, set new tasks through a
// second engine with the new list, and run the first one until it is empty.
package sharded
