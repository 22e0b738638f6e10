package sharded

import (
	"hash/crc32"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Place returns in which of so many shards a task is, from 0. All with the same text in braces
// in their ids are in the same one, for each topic.
//
// It is the lowest bits of the hash that decide, as for slots: so where the number of shards is
// a power of two, a slot of a topic with at least as many slots is in one shard. The topic is
// there so that the same few ids in many topics are not in the same shard.
func Place(key timeout.Key, shards int) int {
	return placeOf(key.Topic, int(timeout.Hash(key.ID)%timeout.MaxSlots), shards)
}

// placeOf is the place of a part: a slot of a topic that has as many as there can be.
func placeOf(topic string, part, shards int) int {
	return int((uint64(crc32.ChecksumIEEE([]byte(topic))) + uint64(part)) % uint64(shards)) //nolint:gosec // less than shards
}

// places reports for each shard whether tasks of some slots can be there. Nil means all slots.
func places(topic string, slots []int, of, shards int) []bool {
	in := make([]bool, shards)
	if slots == nil || of == 0 {
		for place := range in {
			in[place] = slots == nil || len(slots) > 0
		}
		return in
	}
	for _, slot := range slots {
		for part := slot; part < timeout.MaxSlots; part += of {
			in[placeOf(topic, part, shards)] = true
		}
	}
	return in
}
