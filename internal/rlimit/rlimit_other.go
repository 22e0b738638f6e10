//go:build !unix

// Package rlimit reads and raises the number of descriptors that this process
// may have.
package rlimit

// Files returns how many descriptors this process may have, or ok false where
// there is no such limit.
func Files() (limit int, ok bool) { return 0, false }

// Open returns how many descriptors are open, or 0 where that can't be told.
func Open() int { return 0 }

// Raise does nothing where there is no limit.
func Raise(want int) (limit int, err error) { return want, nil }
