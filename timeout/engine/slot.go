package engine

import "github.com/heartwheel-go/heartwheel/internal/slot"

// MaxSlots is the greatest number of slots of a topic.
const MaxSlots = 1024

// Hash returns the CRC-32 (IEEE) of an id, or of the first part of it in braces. The lowest
// bits are the slot, so tasks with the same text in braces are in the same slot.
func Hash(id string) uint32 { return slot.Hash(id) }

// Slot returns the slot of an id in a topic with that many slots, a power of two.
func Slot(id string, slots int) int { return slot.Of(id, slots) }
