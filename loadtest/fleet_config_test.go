package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	for _, name := range append(fleetFlags, "nodes") {
		require.Contains(t, stderr, "  -"+name)
	}
}

// A report is for everybody, and so are the arguments of a process.
func TestThePasswordOfRedisIsShownToNobody(t *testing.T) {
	cfg, err := parse(strings.Fields("-nodes 3 -redis redis://user:secret@host:1/2 -redis-timeout 2s"), io.Discard)
	require.NoError(t, err)
	require.Contains(t, cfg.given, " -redis=redis://user:xxxxx@host:1/2")
	args := strings.Join(cfg.gatewayArgs("p"), " ")
	require.NotContains(t, args, "secret")
	require.Contains(t, args, "-redis-timeout 2s")
	for _, procs := range []int{1, 3} {
		require.Contains(t, plan{procs: procs}.gatewayEnv(cfg.redis), "REDIS_URL=redis://user:secret@host:1/2")
	}
}

func TestDefaultsOfAFleet(t *testing.T) {
	cfg, err := parse(strings.Fields("-nodes 3"), io.Discard)
	require.NoError(t, err)
	require.Zero(t, cfg.silent)
	require.Equal(t, 30*time.Second, cfg.renew)
	require.Equal(t, time.Minute, cfg.steadyFor)
	require.Equal(t, 1, cfg.kill)
	require.Equal(t, 91*time.Second, cfg.detectable())

	cfg, err = parse(strings.Fields("-nodes 3 -node-lease 6s"), io.Discard)
	require.NoError(t, err)
	require.Equal(t, 10*time.Minute, cfg.lease)
	require.Equal(t, 12*time.Second, cfg.steadyFor)
	require.Equal(t, 7*time.Second, cfg.detectable())
	require.Equal(t, 7*time.Second, cfg.aftermath())

	for args, want := range map[string]time.Duration{"-lease 60s -kill 0": 0, "-rolling": 91 * time.Second, "-rolling -node-lease 6s": 91 * time.Second, "-rolling -lease 6s": 7 * time.Second} {
		cfg, err = parse(append(strings.Fields(args), "-nodes", "3"), io.Discard)
		require.NoError(t, err)
		require.Equal(t, want, cfg.aftermath(), args)
	}

	for args, kill := range map[string]int{"-nodes 1": 0, "-nodes 2": 1, "-nodes 2 -rolling": 0} {
		cfg, err = parse(strings.Fields(args), io.Discard)
		require.NoError(t, err)
		require.Equal(t, kill, cfg.kill, args)
	}
}

// Whoever is killed or restarted, no node gets more than fits into its descriptors.
func TestANodeHasRoomForThoseOfOthers(t *testing.T) {
	for args, most := range map[string]int{
		"-conns 3000 -nodes 3 -kill 0":           1000,
		"-conns 3000 -nodes 3":                   1250,
		"-conns 3000 -nodes 3 -return 1":         1500,
		"-conns 3000 -nodes 3 -return 0":         1000,
		"-conns 3000 -nodes 4 -kill 2 -return 1": 1500,
		"-conns 3000 -nodes 3 -rolling":          1500,
	} {
		cfg, err := parse(strings.Fields(args), io.Discard)
		require.NoError(t, err)
		require.Equal(t, most+slack, cfg.mostOfNode(), args)
		p, err := newPlan(cfg)
		require.NoError(t, err)
		require.Equal(t, cfg.nodes, p.procs)
	}
	cfg, err := parse(strings.Fields("-conns 60000 -nodes 3"), io.Discard)
	require.NoError(t, err)
	require.EqualError(t, plan{limit: 20_000}.fits(cfg),
		"-conns 60000: up to 25016 are on one of -nodes 3, and there is room for 19119 in the 20000 descriptors of a process (see ulimit -n)")
	require.NoError(t, plan{limit: 30_000}.fits(cfg))
}

func TestWhoComesBackIsChosenAtRandom(t *testing.T) {
	cfg, err := parse(strings.Fields("-conns 1001 -nodes 3 -return 0.3"), io.Discard)
	require.NoError(t, err)
	f := newFleet(cfg)
	require.Len(t, f.stays, 334, "those of the first node")
	stay := 0
	for _, stays := range f.stays {
		if stays {
			stay++
		}
	}
	require.Equal(t, 234, stay)
	require.NotEqual(t, f.stays, newFleet(cfg).stays)
	require.NotEqual(t, f.prefix, newFleet(cfg).prefix)
}
