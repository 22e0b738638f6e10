//go:build race

package rules_test

// raceEnabled: the race detector slows this test down.
const raceEnabled = true
