package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Everybody on a machine can read the arguments of a process.
func TestThePasswordOfRedisIsNotAmongTheArguments(t *testing.T) {
	n := startOnOwnRedis(t)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n.PID()))
	require.NoError(t, err)
	require.NotContains(t, string(line), "secret")
	require.Contains(t, string(line), "-name")
}
