package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/loadtest/fleet"
)

func TestFlagsOfAFleetThatMakeNoSense(t *testing.T) {
	for args, want := range map[string]string{
		"-lease 6s":                               "-lease: is about a fleet, which -nodes makes",
		"-rolling":                                "-rolling: is about a fleet, which -nodes makes",
		"-nodes -1":                               "-nodes -1: must be 0 to 64, and at most -conns 10000",
		"-nodes 65":                               "-nodes 65: must be 0 to 64, and at most -conns 10000",
		"-nodes 3 -conns 2":                       "-nodes 3: must be 0 to 64, and at most -conns 2",
		"-nodes 3 -addr 127.0.0.1:1":              "-addr: means nothing with a fleet, -nodes 3",
		"-nodes 3 -baseline net":                  "-baseline: means nothing with a fleet, -nodes 3",
		"-nodes 3 -procs 3":                       "-procs: means nothing with a fleet, -nodes 3",
		"-nodes 3 -storm":                         "-storm: means nothing with a fleet, -nodes 3",
		"-nodes 3 -probes 3":                      "-probes: means nothing with a fleet, -nodes 3",
		"-nodes 3 -duration 1m":                   "-duration: means nothing with a fleet, -nodes 3",
		"-nodes 3 -lease 500ms":                   "-lease 500ms: must be 1s to 1000h0m0s",
		"-nodes 3 -lease 6s -renew 4s":            "-renew 4s: must be 1ms to half of -lease 6s",
		"-nodes 3 -lease 6s -renew 0s":            "-renew 0s: must be 1ms to half of -lease 6s",
		"-nodes 3 -lease 6s -node-lease 7s":       "-node-lease 7s: must be 0 to -lease 6s",
		"-nodes 3 -redis-timeout -1s":             "-redis-timeout -1s: must not be negative",
		"-nodes 3 -steady 1ms":                    "-steady 1ms: must be 1s to 1000h0m0s",
		"-nodes 3 -kill 2":                        "-kill 2: must be 0 to half of -nodes 3: when most of a fleet dies, it waits for another lease",
		"-nodes 3 -kill -1":                       "-kill -1: must be 0 to half of -nodes 3: when most of a fleet dies, it waits for another lease",
		"-nodes 1 -kill 1":                        "-kill 1: must be 0 to half of -nodes 1: when most of a fleet dies, it waits for another lease",
		"-nodes 3 -kill 1 -rolling":               "-kill 1: with -rolling nodes are ended, not killed",
		"-nodes 1 -rolling":                       "-nodes 1: must be at least 2 with -rolling",
		"-nodes 3 -return 2":                      "-return 2: must be 0 to 1",
		"-nodes 3 -return NaN":                    "-return NaN: must be 0 to 1",
		"-nodes 3 -rolling -silent 0.1":           "-silent 0.1: with -rolling nobody is to be offline",
		"-nodes 3 -lease 2s -steady 2s -silent 1": "-silent 1: takes -timeout 6s and -interval 2s, and this run takes 5s (see -steady)",
		"-nodes 3 -netns -redis redis://x":        "-redis redis://x: can't be reached from the network namespace of -netns",
		"-nodes 3 -quantum 2s":                    "-quantum 2s: must be 0 to half of -interval 2s",
	} {
		exit, stdout, stderr := load(strings.Fields(args)...)
		require.Equal(t, exitUsage, exit, args)
		require.Empty(t, stdout)
		require.Equal(t, "loadtest: "+want+"\n", stderr)
	}
	exit, _, stderr := load("-h")
	require.Zero(t, exit)
	for _, name := range append(fleet.Flags, "nodes") {
		require.Contains(t, stderr, "  -"+name)
	}
}

// A report is for everybody.
func TestThePasswordOfRedisIsShownToNobody(t *testing.T) {
	cfg, err := parse(strings.Fields("-nodes 3 -redis redis://user:secret@host:1/2 -redis-timeout 2s"), io.Discard)
	require.NoError(t, err)
	require.Contains(t, cfg.given, " -redis=redis://user:xxxxx@host:1/2")
	require.Equal(t, "redis://user:secret@host:1/2", cfg.fleet.Redis)
}

// A fleet knows the settings of the whole run for its gateways, and sets others.
func TestSettingsOfARunWithAFleet(t *testing.T) {
	cfg, err := parse(strings.Fields("-nodes 3 -conns 300 -timeout 9s -tick 20ms -server gateway -quantum 10ms"), io.Discard)
	require.NoError(t, err)
	require.Zero(t, cfg.silent)
	require.Zero(t, cfg.probes)
	require.Equal(t, 151*time.Second, cfg.duration, "steady for two renewals, and a lease and a second")
	f := cfg.fleet
	require.Equal(t, 300, f.Conns)
	require.Equal(t, 9*time.Second, f.Timeout)
	require.Equal(t, 20*time.Millisecond, f.Tick)
	require.Equal(t, "gateway", f.Server)
	require.True(t, f.Batches)

	p, err := newPlan(cfg)
	require.NoError(t, err)
	require.Equal(t, 3, p.procs, "a node is a process")
}
