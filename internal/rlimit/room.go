package rlimit

const (
	// MinSpare descriptors, or a 32nd of all if that is more, are kept free of connections. A
	// connection over the limit is accepted before it is refused, and programs open files.
	MinSpare   = 64
	spareShare = 32
)

// Room returns the number of connections for which there are descriptors, and the number of
// descriptors kept free. open is the number of open descriptors without a connection, and reserve
// the number of those still to come. room may be negative. ok is false if there is no limit.
func Room(reserve, open int) (limit, room, spare int, ok bool) {
	if limit, ok = Files(); !ok {
		return 0, 0, 0, false
	}
	spare = max(MinSpare, limit/spareShare)
	return limit, limit - spare - reserve - open, spare, true
}
