// Package explore runs the wheel's own code in every interleaving of two and of three actors.
//
// An actor is a goroutine with one to three calls: Touch, Move, SetDelay, Remove, Expire, Rearm,
// TouchAt, HandOver, HandOverIdle, Look, Touched, Now, Start, MoveTimer, a worker's taking up of a
// timer, and one or two passes of the hand, and All. The actors begin from each state of a timer, on a wheel of nine slots. Two
// actors run with any number of preemptions, and three with three. In one class of scenarios the
// hand sleeps for two ticks. Another has two timers in one slot, and runs once more with a chunk
// for each timer, so that the hand and All let go of the lock between the two.
//
// The test makes a copy of package wheel and replaces two of its imports: the packages
// instead/sync and instead/atomic hand control to package sched before each operation. The copy
// has the clock of the explorer, no goroutine of its own, and the file adapter/adapter.go. An
// overlay of the go command shows the copy to the compiler, so the product's source stays as it
// is.
//
// After each run there must be an order of the calls to explain it: called in this order, a
// naive model gives the same answers and comes to the same end. The end is the state of each
// timer and the backlog. The hand then goes on, and each pending timer becomes due at the
// instant of the model: never early, at most two ticks late, once. Then every link, place and
// count of the wheel is looked at.
//
// Operations on different variables commute. If interleavings differ only in the order of such
// operations, one is checked. A read under the lock of all writers has no step of its own.
// Steps end at atomics and locks only, so a data race on plain memory is left to the race
// detector.
//
// The test also patches copies with faults, and the explorer must find each. A misfit patch
// fails the test, so the patches follow the product.
//
//	make explore  # all of it; make test has a smaller depth
package explore
