// Package cow has a list that is read far more often than it is changed.
package cow

import (
	"slices"
	"sync"
	"sync/atomic"
)

// List is a list that is copied on write. The zero List is empty and ready to use. It must not be copied. All methods are
// safe for concurrent use.
type List[T any] struct {
	mu  sync.Mutex // held while the list is changed
	all atomic.Pointer[[]T]
}

// All returns the elements, in one load. They must not be changed.
func (l *List[T]) All() []T {
	if all := l.all.Load(); all != nil {
		return *all
	}
	return nil
}

// Change replaces the elements with what f makes of a copy of them, unless f returns an error: Change returns that.
func (l *List[T]) Change(f func(all []T) ([]T, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := f(slices.Clone(l.All()))
	if err == nil {
		l.all.Store(&all)
	}
	return err
}

// Add adds an element at the end.
func (l *List[T]) Add(v T) {
	_ = l.Change(func(all []T) ([]T, error) { return append(all, v), nil })
}

// Remove removes the elements for which f reports true.
func (l *List[T]) Remove(f func(T) bool) {
	_ = l.Change(func(all []T) ([]T, error) { return slices.DeleteFunc(all, f), nil })
}
