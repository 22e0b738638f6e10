package engine

import (
	"hash/crc32"
	"strings"
)

// MaxSlots is the greatest number of slots of a topic.
const MaxSlots = 1024

// Hash returns the CRC-32 (IEEE) of an id, or of the first part of it in braces. The lowest
// bits are the slot, so tasks with the same text in braces are in the same slot. Stores keep tasks by it, so
// the answer never changes.
func Hash(id string) uint32 {
	if _, rest, found := strings.Cut(id, "{"); found {
		if basis, _, closed := strings.Cut(rest, "}"); closed && basis != "" {
			id = basis
		}
	}
	sum := ^uint32(0)
	for i := range len(id) { // without a copy of the bytes, unlike crc32.ChecksumIEEE
		sum = crc32.IEEETable[byte(sum)^id[i]] ^ sum>>8
	}
	return ^sum
}

// Slot returns the slot of an id in a topic with that many slots, a power of two.
func Slot(id string, slots int) int { return int(Hash(id) & uint32(slots-1)) }
