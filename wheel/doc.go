// Package wheel keeps deadlines, often moved and seldom reached: one per connection,
// session, lease or cache entry.
//
// A heartbeat moves a deadline in a few nanoseconds, without an allocation or a clock call, and
// without a lock unless the timer is already due. Its answer is exact. True: the timer will live
// until the new deadline, unless it is removed or handed over before. False: it had already
// expired or been removed. A timer never fires early, and at most two ticks late unless the
// machine is overloaded or the hand sleeps (see below). The cost of a tick follows the timers
// due in it, never the number of timers.
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
// Time is counted in ticks. A touch stores the current tick in the timer's word, and
// nothing else. The delay stands beside the word. The timer is filed in the slot of its due
// tick, and the hand visits one slot after the other. A touch leaves the timer in its slot.
// When the hand visits the timer, it derives the deadline from the touch and the delay.
// Then it files the timer again by the difference, or hands it over to expire. So a timer
// touched a thousand times within its delay is filed once.
//
// A slot of a higher level is a block of ticks, see [Config].Levels. The timers of a block
// move down in shares, some in each tick before the block begins. So no tick pays for a
// whole block.
//
// go-zero's TimingWheel keeps four things per timer for all this:
//
//	go-zero    meaning there                     here
//	--------   -------------------------------   -----------------------------------------
//	circle     revolutions until it is due       levels, and rounds in the top level only
//	diff       slots to move at the next visit   the tick of the touch, in the timer's word:
//	                                             the hand files by the difference
//	removed    to be dropped at the next visit   a state of the timer, in the same word;
//	                                             its entry is taken out at once
//	position   place of the entry, by key, in    place of the entry, in the timer
//	           a map
//
// # The hand may sleep
//
// With [Config].MaxSleep the hand need not wake on each tick. It looks a few ticks ahead,
// files their touched timers again, and sleeps until the first tick with a timer. Meanwhile
// the hand publishes no tick, and a touch is dated by the last one. Nothing fires early,
// but the deadline of such a touch may be late by up to MaxSleep. For more exact touches call
// [WheelOf.Now] after each wait, before the touch: it looks at the clock and publishes the
// tick. A touch is exact if others follow in the next ticks.
//
// # When not to use this package
//
// For a few hundred timers, or for deadlines finer than a tick, time.AfterFunc is simpler
// and more precise.
package wheel
