package explore

import "time"

// Wheel is the wheel to explore: a copy of the product's, made by [NewWheel].
type Wheel interface {
	Timer(i int) Timer
	Start(i int, d time.Duration) bool
	MoveTimer(i int, d time.Duration) bool // of the face with keys
	Advance()                              // wakes the hand
	Now() time.Duration
	TakeUp() (i int, ok bool)
	Seen() [2]int8 // how often All has each timer

	// These are no steps of the schedule.

	Tick() uint64
	Wake() time.Duration           // when the hand wants to wake
	Lag(tick uint64) time.Duration // how late a tick was left
	State(i int) State
	Check() error // of links, places and counts
}

// Timer is a timer of such a wheel.
type Timer interface {
	Touch() bool
	Move(d time.Duration) bool
	SetDelay(d time.Duration) bool
	Remove() (int, bool)
	Expire() (int, bool)
	ExpireSeen() (int, bool)
	Rearm(at time.Duration) bool
	RearmSeen(at time.Duration) bool
	TouchAt(at time.Duration) bool
	HandOver() bool
	HandOverIdle(since time.Duration) bool
	Look() (from, at, dueAt time.Duration, quiet, isDue bool)
	Touched() (at time.Duration, quiet bool)
	Value() (int, bool)
}

// NewWheel makes a wheel with the given clock. Its hand does not move by itself, and asks to sleep
// for as long as sleep at most.
type NewWheel func(tick, sleep time.Duration, levels []int, since func() time.Duration) Wheel

// State is the state of a timer.
type State uint8

// The states, in the order of a timer's life.
const (
	Unstarted State = iota
	Pending
	Due
	Expired
	Removed
)

func (s State) String() string {
	return [...]string{"unstarted", "pending", "due", "expired", "removed"}[s]
}
