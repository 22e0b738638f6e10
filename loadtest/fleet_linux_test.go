package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/loadtest/fleet"
)

// The main jobs, small: real gateways in their own processes, and a Redis.
func TestAFleet(t *testing.T) {
	t.Parallel()
	testmain.NeedProgram(t, "redis-server", "scripts/install-packages redis-server")
	binary, err := fleet.BuildGateway(t.Context(), t.TempDir())
	require.NoError(t, err)
	run := func(t *testing.T, args string) *report {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "report")
		exit, stdout, stderr := loadWell(t, append(strings.Fields(args), "-server", binary, "-nodes", "3", "-conns", "300", "-interval", "500ms",
			"-lease", "3s", "-redis-timeout", "400ms", "-json", file+".json", "-html", file+".html")...)
		require.Zero(t, exit, "%s%s", stdout, stderr)
		r := readReport(t, file+".json")
		require.Equal(t, 300, r.Fleet.Sessions)
		require.Equal(t, 300, r.Conns.Established)
		require.Len(t, r.Fleet.ByNode, 3)
		require.Positive(t, r.Fleet.Redis.RSSBytes)
		require.Zero(t, r.Fleet.Offlines.Wrong())
		require.Zero(t, r.Fleet.NotBack)
		root := readPage(t, file+".html")
		require.NotNil(t, root.chart("Sessions by node"))
		require.Equal(t, r.Fleet.Kill != nil, root.chart("How long after the kill they were told to be offline") != nil)
		return &r
	}
	t.Run("of which a node is killed", func(t *testing.T) {
		r := run(t, "-timeout 2s -steady 3s -silent 0.1")
		require.Greater(t, r.Fleet.RenewalsPerSecond, 150.0, "270 sessions at least have one per second")
		k := r.Fleet.Kill
		require.Equal(t, []string{"node-1"}, k.Nodes)
		require.Equal(t, k.Sessions, k.Stayed+k.Back)
		require.InDelta(t, 50, k.Back, 16, "half of them, less those that had fallen silent")
		require.Equal(t, k.Stayed+k.BackAfterEnd, k.Told)
		require.Zero(t, k.Lost)
		require.Positive(t, k.FirstMs, "none at once, though a busy machine has renewed late")
		require.Equal(t, r.Silent.Closed, r.Fleet.Offlines.Reasons["closed"])
		require.Equal(t, k.Told+r.Fleet.Offlines.Crossed, r.Fleet.Offlines.Reasons["expired"])
	})
	t.Run("whose nodes are restarted", func(t *testing.T) {
		r := run(t, "-timeout 10s -steady 1s -rolling") // nobody is silent, and this program may be slow
		require.Equal(t, 3, r.Fleet.Rolling.Restarts)
		require.GreaterOrEqual(t, r.Fleet.Rolling.Resumed, 300)
		require.Zero(t, r.Fleet.Offlines.Told)
		require.LessOrEqual(t, r.Fleet.Rolling.Resumed, r.Fleet.Byes["draining"], "a node may drain a client before it has resumed")
	})
}

// What must fail fails, with its reasons.
func TestVerdictsOfFleets(t *testing.T) {
	for kind, test := range map[string]struct {
		args    string
		reasons []string
	}{
		"lies": {"-nodes 3 -kill 1 -return 0 -steady 1s", []string{
			" sessions were told to be offline while their connections were open",
			"reason: 60 sessions were told to be offline with an epoch that nobody has had",
			`reason: 60 lines of gateways can't be understood, such as "nonsense"`,
		}},
		"says nothing": {"-nodes 3 -kill 1 -return 0.5 -steady 1s", []string{
			"reason: 20 of 20 sessions of killed nodes were never told to be offline",
			"reason: 10 clients found no node until the end, after ",
			` attempts, the first of which failed with: the server said "ERR full"`,
		}},
		"counts wrongly": {"-nodes 2 -kill 0 -steady 3s", []string{
			"reason: 2 nodes do not have the sessions of their clients: node-1 says 7, and its clients 30; node-2 says 7, and its clients 30\n",
			"reason: 60 registrations were never told to be online\n",
			"reason: 60 calls to Redis have failed, where 3 for each node are a slow moment\n",
			"reason: 4 leases were lost by nodes that were there\n",
			"reason: 0 leases were extended in the steady phase, which takes ",
		}},
		"dies": {"-nodes 2 -kill 0 -steady 6s", []string{
			"reason: node-2 has ended by itself: exit status 3: it hurts\n" +
				"reason: 30 sessions of nodes that have ended by themselves were never told to be offline\n" +
				"verdict fail\n",
		}},
		"forgets in peace": {"-nodes 2 -rolling -steady 1s", []string{
			"clients that came back in time were new to their node",
			"sessions were told to be offline whose node was ended in peace",
			"registrations had an epoch that was not higher than the one before",
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			exit, stdout, stderr := loadBadly(t, test.reasons, append(strings.Fields(test.args), "-server", newFake(t, kind), "-redis", "redis://nobody",
				"-conns", "60", "-interval", "100ms", "-timeout", "1s", "-lease", "1s")...)
			require.Equal(t, exitFailure, exit, "%s%s", stdout, stderr)
			for _, reason := range test.reasons {
				require.Contains(t, stdout, reason, stderr)
			}
			require.True(t, strings.HasSuffix(stdout, "verdict fail\n"), stdout)
		})
	}
}

// If nobody dies, and nobody lies, nobody is told of.
func TestAFleetToWhichNothingHappens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.json")
	exit, stdout, stderr := loadWell(t, "-server", newFake(t, "is good"), "-redis", "redis://nobody", "-nodes", "2", "-kill", "0",
		"-conns", "60", "-interval", "100ms", "-timeout", "1s", "-steady", "10s", "-lease", "1s", "-json", file)
	require.Zero(t, exit, "%s%s", stdout, stderr)
	r := readReport(t, file)
	require.Equal(t, 60, r.Fleet.Sessions)
	require.InEpsilon(t, 2000, r.Fleet.RenewalsPerSecond, 0.05, "each has one per millisecond")
	require.Nil(t, r.Fleet.Redis, "it is somebody else's")
	require.Nil(t, r.Fleet.Kill)
	require.Equal(t, 30, r.Fleet.ByNode[1].Sessions)
}

func TestAFleetWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	exit, _, stderr := load("-nodes", "3", "-server", newFake(t, "good"))
	require.Equal(t, exitFailure, exit)
	require.Equal(t, "loadtest: redis-server is not on this machine: scripts/install-packages redis-server installs it (Debian's package redis-server), or -redis says where one runs\n", stderr)
}

// A run ends at once with its Redis, whatever it waits for.
func TestAFleetWhoseRedisEnds(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis-server"),
		[]byte("#!/bin/sh\necho Ready to accept connections\nsleep 3\necho it hurts\nexit 3\n"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, args := range []string{"-kill 0 -steady 10m", "-steady 1s -rolling"} {
		exit, stdout, stderr := load(append(strings.Fields(args), "-nodes", "2", "-conns", "10", "-server", newFake(t, "stays"),
			"-interval", "100ms", "-timeout", "1s", "-lease", "1m")...)
		require.Equal(t, exitFailure, exit, stdout)
		requireLast(t, "loadtest: redis-server has ended: exit status 3: Ready to accept connections; it hurts\n", stderr)
	}
}

func TestAFleetThatDoesNotStart(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho 'it hurts' >&2\nexit 3\n"), 0o755))
	exit, _, stderr := load("-nodes", "2", "-server", script, "-redis", "redis://nobody")
	require.Equal(t, exitFailure, exit)
	require.Equal(t, "loadtest: node-1: the server ended at once: it hurts\n", stderr)

	// As a gateway with a better knowledge of its flags than this program.
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho '{\"msg\":\"server: listening\",\"addr\":\"127.0.0.1:1\"}' >&2\necho 'not so' >&2\nexit 2\n"), 0o755))
	exit, _, stderr = load("-nodes", "2", "-server", script, "-redis", "redis://nobody")
	require.Equal(t, exitUsage, exit)
	require.Equal(t, "loadtest: node-1: the server refuses what the flags ask for: not so\n", stderr)
}

// All processes end, and nobody waits any more.
func TestAFleetThatIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"steady", "killed"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out, errs strings.Builder
		steady := map[string]string{"steady": "1m", "killed": "1s"}[phase]
		time.AfterFunc(3*time.Second, cancel)
		exit := run(ctx, []string{
			"-nodes", "2", "-conns", "10", "-server", newFake(t, "good"), "-redis", "redis://nobody",
			"-interval", "100ms", "-timeout", "1s", "-steady", steady, "-lease", "1m",
		}, &out, &errs)
		require.Equal(t, exitFailure, exit, phase)
		requireLast(t, "loadtest: interrupted\n", errs.String())
	}
}

// requireLast requires a last line; before it a slow run may have said how far it is.
func requireLast(t *testing.T, line, stderr string) {
	t.Helper()
	require.True(t, strings.HasSuffix("\n"+stderr, "\n"+line), stderr)
}
