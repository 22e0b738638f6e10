// Package sync stands in place of sync, as far as package wheel needs it: to take a lock is a
// step of package sched.
package sync

import "github.com/heartwheel-go/heartwheel/wheel/internal/explore/sched"

// Mutex stands in place of sync.Mutex.
type Mutex = sched.Mutex

// RWMutex stands in place of sync.RWMutex.
type RWMutex = sched.Mutex

// Once stands in place of sync.Once. It is for one goroutine: the explorer does not call Stop.
type Once struct{ done bool }

// Do calls f the first time.
func (o *Once) Do(f func()) {
	if !o.done {
		o.done = true
		f()
	}
}
