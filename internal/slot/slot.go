// Package slot spreads ids over slots. Stored data depends on its answers: they must never change.
package slot

import (
	"hash/crc32"
	"strings"
)

// Hash returns the CRC-32 (IEEE) of an id, or of the first part of it in braces.
func Hash(id string) uint32 {
	if _, rest, found := strings.Cut(id, "{"); found {
		if basis, _, closed := strings.Cut(rest, "}"); closed && basis != "" {
			id = basis
		}
	}
	return crc32.ChecksumIEEE([]byte(id))
}

// Of returns the slot of an id among that many slots, a power of two.
func Of(id string, slots int) int { return int(Hash(id) & uint32(slots-1)) }
