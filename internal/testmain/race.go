//go:build race

package testmain

// Race reports whether this is a test binary with the race detector. It makes a pure computation up to 18 times as slow,
// and finds nothing in a single goroutine, so exhaustive and random models go less deep with it. scripts/models
// runs them without it, as deep as they go.
const Race = true
