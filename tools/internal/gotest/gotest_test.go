package gotest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailuresAreReadFromTheOutput(t *testing.T) {
	failure := fmt.Errorf("exit status 2")
	for _, c := range []struct {
		output string
		want   []string
	}{
		{"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\n--- FAIL: TestB (1.00s)\nFAIL\n", []string{"TestA", "TestB"}},
		{"panic: test timed out after 4m0s\n\trunning tests:\n\t\tTestC (3m0s)\n\t\tTestD/x (2s)\n\ngoroutine 1:\n", []string{"timed out:", "TestC", "TestD/x"}},
		{"fatal error: all goroutines are asleep\n", []string{"fatal error: all goroutines are asleep"}},
		{"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x\npanic: Fail in goroutine\n\ngoroutine 1:\n", []string{"panic: Fail in goroutine", "TestB/x"}},
		{"", []string{"exit status 2"}},
	} {
		require.Equal(t, c.want, WhatFailed([]byte(c.output), failure))
	}
}

func TestPatternsMatchFolders(t *testing.T) {
	for _, c := range []struct {
		name, pattern string
		want          bool
	}{
		{"./wheel", "./wheel", true},
		{"./wheel", "./wheel/", true},
		{"./wheel/internal/explore", "./wheel", false},
		{"./wheel/internal/explore", "./wheel/...", true},
		{"./wheel", "./wheel/...", true},
		{"./wheels", "./wheel/...", false},
		{"./wheel", "./...", true},
	} {
		require.Equal(t, c.want, matches(c.name, c.pattern), "%s %s", c.name, c.pattern)
	}
}

func TestOnlyModulesOfAPatternAreListed(t *testing.T) {
	for _, c := range []struct {
		pattern, module string
		want            bool
	}{
		{"./wheel", ".", true},
		{"./wheel", "timeout", false},
		{"./timeout", "timeout", true},
		{"./timeout/engine", "timeout", true},
		{"./timeouts", "timeout", false},
		{"./timeout", "timeout/redis", false},
		{"./timeout/...", "timeout/redis", true},
		{"./...", "timeout/redis", true},
	} {
		require.Equal(t, c.want, concerns(c.pattern, c.module), "%s %s", c.pattern, c.module)
	}
}
