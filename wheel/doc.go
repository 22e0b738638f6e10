// Package wheel holds deadlines that are moved far more often than they
// expire: one per connection, session, lease or cache entry.
//
// A heartbeat moves a deadline in a few nanoseconds, without a lock, an
// allocation or a clock call, and its answer is exact: true means that the
// timer will live until the new deadline, false means that it had already
// expired or been removed. A timer never fires early, and on a machine that
// is not overloaded at most two ticks late. What a tick costs follows what is
// due in it and never the number of timers.
//
//	w, err := wheel.New(wheel.Config{})
//	...
//	t := w.AfterFunc(30*time.Second, func() { conn.Close() })
//	t.Touch()  // a heartbeat: 30 more seconds from now
//	t.Remove() // the connection is gone
//
// # Three faces, one engine
//
//   - [TimingWheel] is keyed: SetTimer, MoveTimer and RemoveTimer take a key,
//     in the shape that users of go-zero know.
//   - [Wheel] gives a [Timer] to whoever can keep a pointer: no key, no map.
//   - [WheelOf] is the engine itself, for programs that keep a million timers:
//     a [TimerOf] carries its value without a closure and can be part of the
//     caller's own struct.
//
// # How it works
//
// Time is counted in ticks. A timer keeps the tick on which it is due in one
// atomic word. It is filed in the slot of that tick; the hand visits one slot
// after the other. Moving a timer to a later tick only changes the word: the
// timer stays where it is filed, and when the hand comes there, the difference
// between due and now decides whether to file it again, further on, or to let
// it expire. So a timer that is touched a thousand times within its delay is
// filed once.
//
// # When not to use this package
//
// For a few hundred timers, or for deadlines that need to be met within less
// than a tick, time.AfterFunc is simpler and more precise.
package wheel
