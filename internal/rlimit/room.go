package rlimit

const (
	// MinSpare descriptors, or a 32nd of all if that is more, are kept free of connections. A
	// connection over the limit is accepted before it is refused, and programs open files.
	MinSpare   = 64
	spareShare = 32
)

// Room returns the limit on descriptors, the room left for connections, and the spare descriptors kept
// free. open counts the open descriptors without a connection, and reserve the coming ones. room may be
// negative. ok is false if there is no limit.
func Room(reserve, open int) (limit, room, spare int, ok bool) {
	if limit, ok = Files(); !ok {
		return 0, 0, 0, false
	}
	spare = max(MinSpare, limit/spareShare)
	return limit, limit - spare - reserve - open, spare, true
}

// MaxRefusals is the most that Refusals returns.
const MaxRefusals = 1024

// Refusals returns how many refused connections may stay open for their last words: half of the spare descriptors at most.
func Refusals() int {
	if _, _, spare, ok := Room(0, 0); ok {
		return min(MaxRefusals, spare/2)
	}
	return MaxRefusals
}
