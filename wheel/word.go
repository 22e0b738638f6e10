package wheel

// A timer's word holds the tick of its last touch, and its state. So one compare-and-swap
// settles each race between a touch, a removal and the hand:
//
//	63                                      5      4      3     2      0
//	+-----------------------------------------+------+---------+----------+
//	| touched: a tick, 59 bits                | seen | rearmed |  state   |
//	+-----------------------------------------+------+---------+----------+
//
// The word holds no deadline. The hand derives it when it visits the timer: the tick of the
// last touch and the delay, and one tick more, since the touch may have come at the very
// end of its tick. A rearmed timer has a deadline of its own instead, TimerOf.until. Look
// sets the bit seen. A touch clears seen and rearmed, even in the tick of Look or Rearm. So
// a bit still set means: no touch since.
//
// The states, and their changes:
//
//	unstarted --Start--> pending --the hand, HandOver--> due --Expire--> expired
//	                      |  ^                           | |
//	                      |  +-Touch, Move, Rearm, ...---+ +--Remove--> removed
//	                      +--Remove--> removed
//
// Only a touch of a pending timer does without the wheel's lock. Every other change holds
// it, and still has to be a compare-and-swap if it starts from pending.
type word = uint64

const (
	unstarted word = iota
	pending
	due
	expired
	removed // also during Start

	stateMask word = 7
	rearmed   word = 1 << 3
	seen      word = 1 << 4

	touchedShift = 5
)

// touchedOn returns the word of a pending timer after a touch on a tick.
func touchedOn(tick uint64) word { return tick<<touchedShift | pending }

// touchedTick returns the tick of the last touch.
func touchedTick(w word) uint64 { return w >> touchedShift }

// isQuiet reports whether nobody has touched a running timer since it was rearmed or looked at.
func isQuiet(w word) bool { return w&(rearmed|seen) != 0 }

// isDue reports whether a timer is due, and its word has all of the given bits.
func isDue(w, bits word) bool { return w&(stateMask|bits) == due|bits }

// isRunning reports whether a timer is pending, or due and not decided.
func isRunning(w word) bool {
	s := w & stateMask
	return s == pending || s == due
}
