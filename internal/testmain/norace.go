//go:build !race

package testmain

// Race reports whether this is a test binary with the race detector.
const Race = false
