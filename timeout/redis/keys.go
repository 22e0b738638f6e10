package redis

import (
	"slices"
	"strconv"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// partition is the keys of one: they have the hash tag {topic:generation:partition}. The number of the generation is
// never used again, for no topic.
type partition struct {
	topic string
	gen   int64
	part  int
	keys  []any // in the order of keyNames
}

// keyNames are the last parts of a partition's keys, and their names in the scripts.
var keyNames = []string{"s", "p", "f", "d", "r", "b", "a", "m", "t"}

// lookKeys are the keys of look.lua, in its order.
var lookKeys = []string{"m", "f", "d", "r"}

// firstKeys are the keys of first.lua, in its order.
var firstKeys = []string{"m", "s", "p"}

// endedKeys are the keys of estimate.lua, in its order.
var endedKeys = []string{"f", "d", "r", "b", "a", "m"}

// named returns some of the partition's keys.
func (p *partition) named(names []string) []any {
	keys := make([]any, len(names))
	for i, name := range names {
		keys[i] = p.keys[slices.Index(keyNames, name)]
	}
	return keys
}

func (e *Engine) partitions(topic string, gen int64, parts int) []*partition {
	partitions := make([]*partition, parts)
	for part := range partitions {
		tag := e.cfg.Prefix + ":{" + topic + ":" + strconv.FormatInt(gen, 36) + ":" + strconv.Itoa(part) + "}:"
		p := &partition{topic: topic, gen: gen, part: part, keys: make([]any, len(keyNames))}
		for i, name := range keyNames {
			p.keys[i] = tag + name
		}
		partitions[part] = p
	}
	return partitions
}

// partBits are the lowest bits of Token.Lease: the partition's number, so that no two partitions of a topic
// give the same lease. The other bits are a number given by the partition.
const partBits = 10

func leaseOf(number int64, part int) int64 { return number<<partBits | int64(part) }

// leaseKey returns a lease as it is kept, and whether it can be one at all.
func leaseKey(lease int64) (string, bool) {
	number := lease >> partBits
	if number <= 0 {
		return "", false
	}
	var key [7]byte
	for i := range key {
		key[i] = byte(number >> (8 * (6 - i)))
	}
	return string(key[:]), true
}

// partOf is Token.Part: the generation of the lease.
func partOf(gen int64) string { return strconv.FormatInt(gen, 36) }

func genOf(token engine.Token) (int64, bool) {
	gen, err := strconv.ParseInt(token.Part, 36, 64)
	return gen, err == nil && gen > 0
}
