package main

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlagsThatMakeNoSense(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, flag.CommandLine.Parse(nil)) })
	for _, f := range []struct{ name, value, want string }{
		{"nodes", "0", "-nodes 0, must be at least 1"},
		{"sessions", "2", "-sessions 2, must be at least -nodes, 3"},
		{"rounds", "0", "-rounds 0, must be at least 1"},
		{"for", "999ms", "-for 999ms, must be at least 1s"},
		{"settle", "-1s", "-settle -1s, must not be negative"},
		{"heartbeat", "0s", "-heartbeat 0s, must be at least 10ms"},
		{"only", "nothing", `-only "nothing", must be part of one of ["fleet: a lease every 30s" `},
	} {
		require.NoError(t, flag.Set(f.name, f.value))
		require.ErrorContains(t, run(t.Context()), f.want)
		require.NoError(t, flag.Set(f.name, flag.Lookup(f.name).DefValue))
	}
	require.NoError(t, flag.CommandLine.Parse([]string{"fleet"}))
	require.EqualError(t, run(t.Context()), `unexpected argument "fleet": there are only flags`)
}

func TestAFleetThatTellsOfLiveSessionsFails(t *testing.T) {
	require.NoError(t, judge([]result{{name: "a"}, {name: "b"}}))
	require.EqualError(t, judge([]result{{name: "a"}, {name: "b", offline: 3}}), "b: 3 sessions were told to be offline, and none has ended")
}
