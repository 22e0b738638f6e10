//go:build !unix

// Package rlimit reads and raises this process's limit on descriptors.
package rlimit

// Files returns this process's limit on descriptors, or ok false without one.
func Files() (limit int, ok bool) { return 0, false }

// Open returns the number of open descriptors, or 0 if it is unknown.
func Open() int { return 0 }

// Raise does nothing: there is no limit.
func Raise(want int) (limit int, err error) { return want, nil }
