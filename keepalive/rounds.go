package keepalive

// maxRounds is how often in a row a connection is given more time because bytes
// wait in its socket that this program has not read. A program that is slow
// reads them meanwhile. One that hangs must not keep its dead connections.
const maxRounds = 3

// rounds counts how often a connection was given more time: the number in the
// low byte, and above it the tick, cut to 24 bits, on which the last time ends.
// A deadline other than that means that the connection was touched since, and
// that the count begins anew.
type rounds uint32

// next returns the count after one more, for a connection that is due on
// dueTick, and whether that is not too many.
func (r rounds) next(dueTick uint64) (n rounds, ok bool) {
	n = 1
	if r.endsOn(dueTick) {
		n += r & 0xff
	}
	return n, n <= maxRounds
}

// endsOn reports whether it was for unread bytes that the deadline is on dueTick.
func (r rounds) endsOn(dueTick uint64) bool {
	return r != 0 && r>>8 == rounds(dueTick)&0xffffff
}

// until returns the count with the tick on which the time given ends.
func (r rounds) until(dueTick uint64) rounds { return r&0xff | rounds(dueTick)<<8 }
