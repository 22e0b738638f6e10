package gotest

import (
	"bytes"
	"slices"
	"strings"
)

// TimedOut is first in what failed when time was over.
const TimedOut = "timed out:"

// WhatFailed finds the failed tests in the output of a run, and the running ones when time was over. After a
// panic, that is the last one that began.
func WhatFailed(output []byte, err error) (names []string) {
	running, last := false, ""
	for line := range bytes.Lines(output) {
		text := strings.TrimRight(string(line), "\n")
		switch {
		case strings.HasPrefix(text, "--- FAIL: "):
			names = append(names, strings.Fields(text)[2])
		case strings.HasPrefix(text, "=== RUN "):
			last = strings.Fields(text)[2]
		case strings.HasPrefix(text, "panic: test timed out"):
			names = append(names, TimedOut)
		case text == "\trunning tests:":
			running = true
		case running && strings.HasPrefix(text, "\t\tTest"):
			names = append(names, strings.Fields(text)[0])
		case strings.HasPrefix(text, "fatal error: "), strings.HasPrefix(text, "panic: ") && len(names) == 0:
			names = append(names, text)
			if last != "" {
				names = append(names, last)
			}
		default:
			running = false
		}
	}
	if len(names) == 0 {
		return []string{err.Error()}
	}
	return names
}

// TopLevel are the tests among what failed, without subtests.
func TopLevel(failed []string) (names []string) {
	for _, what := range failed {
		name, _, _ := strings.Cut(what, "/")
		isTest := strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")
		if isTest && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
