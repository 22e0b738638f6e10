package sharded

import (
	"hash/crc32"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// ShardOf returns the shard of a task, from 0. Tasks of a topic with the same text in braces in
// their ids are in the same shard.
//
// The lowest bits of the hash decide, as for slots. So if the number of shards is a power of two, a
// slot of a topic with at least as many slots is in one shard. The topic counts, too: it spreads
// the same few ids of many topics over the shards.
func ShardOf(key engine.Key, shards int) int {
	return sharder(key.Topic, shards)(int(engine.Hash(key.ID) % engine.MaxSlots))
}

// sharder returns the function from a part of a topic, a slot of engine.MaxSlots, to its shard.
func sharder(topic string, shards int) func(part int) int {
	hash := uint64(crc32.ChecksumIEEE([]byte(topic)))
	return func(part int) int { return int((hash + uint64(part)) % uint64(shards)) } //nolint:gosec // less than shards
}

// shardsOf reports for each shard whether tasks of some slots can be there. Nil means all slots.
func shardsOf(topic string, slots []int, of, shards int) []bool {
	in := make([]bool, shards)
	if slots == nil || of == 0 {
		for index := range in {
			in[index] = slots == nil || len(slots) > 0
		}
		return in
	}
	shardOf := sharder(topic, shards)
	for _, slot := range slots {
		for part := slot; part < engine.MaxSlots; part += of {
			in[shardOf(part)] = true
		}
	}
	return in
}
