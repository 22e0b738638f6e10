package fleet

import (
	"hash/crc32"
	"strings"
)

// slotAmong returns the slot of an id among that many slots, a power of two: the lowest bits of the CRC-32 (IEEE)
// of the id, or of the first part of it in braces. Redis has sessions by this slot, so the answer must never change.
func slotAmong(id string, slots int) int {
	if _, rest, found := strings.Cut(id, "{"); found {
		if basis, _, closed := strings.Cut(rest, "}"); closed && basis != "" {
			id = basis
		}
	}
	return int(crc32.ChecksumIEEE([]byte(id)) & uint32(slots-1))
}
