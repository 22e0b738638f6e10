package wheel

import "math/bits"

// A timer's word says everything that a touch, a removal and the hand have to
// agree on, so that one compare-and-swap settles each race between them:
//
//	63                     24 23             2 1   0
//	+------------------------+----------------+-----+
//	| due: tick, 40 bits     | span: 22 bits  |state|
//	+------------------------+----------------+-----+
//
// due is the tick on which the timer expires unless it is moved. span is the
// delay, in ticks, with which that was computed, so that due-span-1 is the tick
// of the touch; a long one is rounded (see pack). The states and who changes
// them:
//
//	0 --Start--> pending --hand--> due --Expire--> expired
//	              |  ^              | |
//	              |  +----Move------+ +--Remove--> removed
//	              +--Remove--> removed
//
// No timer is started twice: the word is never 0 again.
//
// Only pending to pending, a move to a later tick, is done without the wheel's
// lock. Every other change holds it, but has to be a compare-and-swap where it
// starts from pending.
type word = uint64

const (
	removed word = iota // also a timer that is not started yet
	pending
	due
	expired

	stateMask = 3

	spanShift    = 2
	spanBits     = 22
	spanMantissa = 17 // bits of a span that are kept exactly
	spanMask     = 1<<spanBits - 1

	dueShift = spanShift + spanBits

	// maxDue is the last tick: 34 years after the start of a wheel with a tick
	// of 1ms. A timer that is due then is as good as one that never expires.
	maxDue = 1<<(64-dueShift) - 1

	// claimed is the word of a timer that is being started: removed, and not 0,
	// which is the word of one that was never started.
	claimed = 1 << dueShift

	// exactSpan is the first span that its packed form no longer equals.
	exactSpan = 1 << spanMantissa
)

// pendingAt returns the word of a timer that was touched while the hand's tick
// was now and has to wait for n ticks. The touch came before the hand left
// now, which is at the earliest at now+1: hence the one more.
func pendingAt(now, n uint64) word {
	now = min(now, maxDue-1)
	n = min(n, maxDue-1-now)
	return (now+n+1)<<dueShift | pack(n, spanMantissa)<<spanShift | pending
}

// isRunning reports whether a timer is pending, or due and not decided.
func isRunning(w word) bool {
	s := w & stateMask
	return s == pending || s == due
}

func dueOf(w word) uint64 { return w >> dueShift }

// touchedBetween returns the first and the last tick on which the touch can
// have happened that led to w. They are the same for all spans that are kept
// exactly.
func touchedBetween(w word) (first, last uint64) {
	least, most := unpack(w>>spanShift&spanMask, spanMantissa)
	d := dueOf(w) - 1
	return d - min(most, d), d - min(least, d)
}

// pack shortens n to a floating-point form: the topmost mantissa bits, and how
// far they were shifted. A number of up to mantissa bits is its own packed form.
// A longer one loses its lower bits.
func pack(n uint64, mantissa int) uint64 {
	if n < 1<<mantissa {
		return n
	}
	shift := bits.Len64(n) - mantissa
	return uint64(shift)<<mantissa | n>>shift&(1<<mantissa-1)
}

// unpack returns the smallest and the largest number that pack shortens to p.
func unpack(p uint64, mantissa int) (least, most uint64) {
	shift := p >> mantissa
	least = p & (1<<mantissa - 1) << shift
	return least, least + 1<<shift - 1
}
