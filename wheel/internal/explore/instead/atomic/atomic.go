// Package atomic stands in place of sync/atomic, as far as package wheel needs it: each
// operation is a step of package sched.
package atomic

import "github.com/heartwheel-go/heartwheel/wheel/internal/explore/sched"

type integer interface{ ~int64 | ~uint64 }

type number[T integer] struct {
	sched.Var
	v T
}

// Uint64 stands in place of atomic.Uint64.
type Uint64 = number[uint64]

// Int64 stands in place of atomic.Int64.
type Int64 = number[int64]

// Load is a step.
func (n *number[T]) Load() T {
	n.Read()
	n.trace("is")
	return n.v
}

// Store is a step.
func (n *number[T]) Store(v T) {
	n.Write()
	n.v = v
	n.trace("becomes")
}

// Add is a step.
func (n *number[T]) Add(d T) T {
	n.Write()
	n.v += d
	n.trace("becomes")
	return n.v
}

// Swap is a step.
func (n *number[T]) Swap(v T) T {
	n.Write()
	old := n.v
	n.v = v
	n.trace("becomes")
	return old
}

// CompareAndSwap is a step.
func (n *number[T]) CompareAndSwap(old, v T) bool {
	ok := n.Try(func() bool { return n.v == old })
	if sched.Traced() {
		n.Trace("is %#x, and becomes %#x if it is %#x: %v", n.v, v, old, ok)
	}
	if ok {
		n.v = v
	}
	return ok
}

// Peek is Load, but no step: for the checks.
func (n *number[T]) Peek() T { return n.v }

func (n *number[T]) trace(what string) {
	if sched.Traced() {
		n.Trace("%s %#x", what, n.v)
	}
}

// Bool stands in place of atomic.Bool. No explored call changes one, so its operations are no steps.
type Bool struct{ v bool }

// Load returns the value.
func (b *Bool) Load() bool { return b.v }

// Swap sets the value, and returns the one before.
func (b *Bool) Swap(v bool) bool {
	old := b.v
	b.v = v
	return old
}

// Pointer stands in place of atomic.Pointer. No explored call changes one, so its operations are no steps.
type Pointer[T any] struct{ v *T }

// Load returns the pointer.
func (p *Pointer[T]) Load() *T { return p.v }

// Store sets the pointer.
func (p *Pointer[T]) Store(v *T) { p.v = v }
