// Package wheel holds deadlines that are moved far more often than they expire: one per
// connection, session, lease or cache entry.
//
// A heartbeat moves a deadline in a few nanoseconds, without a lock, an allocation or a
// clock call. Its answer is exact: true means that the timer will live until the new
// deadline, false means that it had already expired or been removed. A timer never fires
// early, and at most two ticks late unless the machine is overloaded. The cost of a tick
// follows what is due in it, never the number of timers.
//
//	w, err := wheel.New(wheel.Config{})
//	...
//	t := w.AfterFunc(30*time.Second, func() { conn.Close() })
//	t.Touch()  // a heartbeat: 30 more seconds from now
//	t.Remove() // the connection is gone
//
// # Three faces, one engine
//
//   - [TimingWheel] is keyed: SetTimer, MoveTimer and RemoveTimer take a key, in the shape
//     known from go-zero.
//   - [Wheel] gives the caller a [Timer] to keep: no key, no map.
//   - [WheelOf] is the engine itself, for programs with a million timers: a [TimerOf] has a
//     value in place of a closure, and can be part of the caller's own struct.
//
// # How it works
//
// Time is counted in ticks. A touch only says when: it stores the current tick in the
// timer's word. The delay stands beside it. The timer is filed in the slot of the tick on
// which it is due, and the hand visits one slot after the other. A touch leaves the timer
// in its slot. When the hand comes there, it derives the deadline, and either files the
// timer again by the difference, or hands it over to expire. So a timer that is touched a
// thousand times within its delay is filed once.
//
// go-zero's TimingWheel has four numbers per timer for that:
//
//	go-zero   counts there                           is here
//	-------   -----------------------------------    ----------------------------------------
//	circle    revolutions until the timer is due     nothing: levels, and a deadline in ticks
//	diff      slots to move at the next visit        the deadline, derived at the visit
//	removed   entries to drop at the next visit      a state of the timer; the entry leaves
//	position  where a key's entry stands             TimerOf.filed
//
// # When not to use this package
//
// For a few hundred timers, or for deadlines to be met within less than a tick,
// time.AfterFunc is simpler and more precise.
package wheel
