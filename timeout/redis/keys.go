package redis

import (
	"slices"
	"strconv"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// place is the keys of a slot: they have the hash tag {topic:generation:slot}.
type place struct {
	topic string
	gen   int64
	slot  int
	keys  []any // in the order of keyNames
}

// keyNames are the last parts of a slot's keys, and their names in the scripts.
var keyNames = []string{"s", "p", "f", "d", "r", "b", "a", "m", "t"}

// lookKeys are the keys of look.lua, in its order.
var lookKeys = []string{"m", "f", "d", "r"}

// firstKeys are the keys of first.lua, in its order.
var firstKeys = []string{"m", "s", "p"}

// endedKeys are the keys of weigh.lua, in its order.
var endedKeys = []string{"f", "d", "r", "b", "a"}

// named returns some of the place's keys.
func (p *place) named(names []string) []any {
	keys := make([]any, len(names))
	for i, name := range names {
		keys[i] = p.keys[slices.Index(keyNames, name)]
	}
	return keys
}

func newPlace(prefix, topic string, gen int64, slot int) *place {
	tag := prefix + ":{" + topic + ":" + strconv.FormatInt(gen, 36) + ":" + strconv.Itoa(slot) + "}:"
	p := &place{topic: topic, gen: gen, slot: slot, keys: make([]any, len(keyNames))}
	for i, name := range keyNames {
		p.keys[i] = tag + name
	}
	return p
}

// generation is the slots of a topic between two changes of their number. Its number is
// never used again, for no topic.
type generation struct {
	Gen   int64 `json:"gen"`
	Slots int   `json:"slots"`
}

func (g generation) places(prefix, topic string) []*place {
	places := make([]*place, g.Slots)
	for slot := range places {
		places[slot] = newPlace(prefix, topic, g.Gen, slot)
	}
	return places
}

// slotBits are the lowest bits of Token.Lease: the slot's number, so that no two slots of a topic
// give the same lease. The other bits are a number given by the slot.
const slotBits = 10

func leaseOf(number int64, slot int) int64 { return number<<slotBits | int64(slot) }

// leaseKey returns a lease as it is kept, and whether it can be one at all.
func leaseKey(lease int64) (string, bool) {
	number := lease >> slotBits
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
