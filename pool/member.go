package pool

import (
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// Member is one member of a [Pool], with its value and its deadline. [Pool.Add]
// makes one; it can also be a field of the caller's own struct, see [Pool.Join].
// The zero Member is in no pool. It must not be copied.
//
// A member that has left never comes back: nobody else ever gets the same
// Member, so a reference that is kept for too long does no harm.
//
// All methods may be called by several goroutines at the same time.
type Member[V any] wheel.TimerOf[V]

func (m *Member[V]) timer() *wheel.TimerOf[V] { return (*wheel.TimerOf[V])(m) }

// Touch says that the member lives: its deadline is its timeout from now. It
// reports whether it will be in the pool until then; false means that it had
// already left or expired. It costs some nanoseconds and takes no lock.
func (m *Member[V]) Touch() bool { return m.timer().Touch() }

// Move moves the deadline to d from now, once: a touch goes back to the member's own
// timeout. It reports like Touch.
func (m *Member[V]) Move(d time.Duration) bool { return m.timer().Move(d) }

// SetTimeout gives the member a timeout of its own, longer or shorter, which
// begins now. It returns [ErrArgument] where d is not positive, and [ErrGone]
// where the member has left or expired.
func (m *Member[V]) SetTimeout(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%w: timeout %v, must be positive", ErrArgument, d)
	}
	if !m.timer().SetDelay(d) {
		return ErrGone
	}
	return nil
}

// Await gives a member that is due until d after its last touch, for this once, and
// returns its Stamp. It reports false where that has passed already, so that the
// member is due for good. Where it was touched meanwhile, or has left, the stamp is 0.
func (m *Member[V]) Await(d time.Duration) (stamp uint64, ok bool) { return m.timer().Await(d) }

// Resume is Await for the deadline that the member has, after a hand-over that came
// before it.
func (m *Member[V]) Resume() (stamp uint64, ok bool) { return m.timer().Resume() }

// Postpone gives a member that is due d more from now, for this once, and returns its
// Stamp. When it was touched does not change. It does nothing, and reports false,
// where the member has been touched since, or has left. It is due again at most one
// tick after d.
func (m *Member[V]) Postpone(d time.Duration) (stamp uint64, ok bool) { return m.timer().Postpone(d) }

// Renew says that a member that is due had been touched, so long ago. It does
// nothing, and reports false, where the member has been touched since, or has left.
func (m *Member[V]) Renew(ago time.Duration) bool { return m.timer().Renew(ago) }

// HandOver has the pool's Due called with the member before it is due. It reports
// false where the member is due already, or has left.
func (m *Member[V]) HandOver() bool { return m.timer().HandOver() }

// Retime changes the timeout that a touch gives to d, without a touch.
func (m *Member[V]) Retime(d time.Duration) { m.timer().Retime(d) }

// Remove takes the member out of the pool and returns its value. It reports
// whether it was still there.
func (m *Member[V]) Remove() (V, bool) { return m.timer().Take() }

// Expire takes a member that is due out of the pool and returns its value. It
// reports whether it was this call that did: false means that the member has
// been touched since it became due, or has left.
func (m *Member[V]) Expire() (V, bool) { return m.timer().Expire() }

// Value returns the member's value, and whether it is in the pool.
func (m *Member[V]) Value() (V, bool) { return m.timer().Value() }

// Timeout returns how long the member stays without a touch, in whole ticks.
func (m *Member[V]) Timeout() time.Duration { return m.timer().Delay() }

// IsDue reports whether the member is due and not decided yet.
func (m *Member[V]) IsDue() bool { return m.timer().IsDue() }

// DueTick returns the number of the tick on which the member is or was due.
func (m *Member[V]) DueTick() uint64 { return m.timer().DueTick() }

// Stamp returns a number that is another one after the deadline was moved: it tells
// whether the member was touched between two looks.
func (m *Member[V]) Stamp() uint64 { return m.timer().Stamp() }

// Waits returns how long after its last touch the member is due.
func (m *Member[V]) Waits() time.Duration { return m.timer().Waits() }

// Idle returns how long ago the member was touched, in whole ticks, or 0 where
// it is in no pool.
func (m *Member[V]) Idle() time.Duration { return m.timer().Idle() }

// Left returns how long it is until the member is due, or 0 where it is due or
// in no pool.
func (m *Member[V]) Left() time.Duration { return m.timer().Left() }
