package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
	"github.com/heartwheel-go/heartwheel/internal/redisserver"
)

func TestMain(m *testing.M) { proctest.Main(m, main) }

// running is the demo, as a process with gateways of its own.
type running struct {
	story *logtest.Log
	cmd   *exec.Cmd
	wait  func() error
	temp  string
}

func start(t *testing.T, args ...string) *running {
	self, err := os.Executable()
	require.NoError(t, err)
	d := &running{story: new(logtest.Log), cmd: exec.Command(self, args...), temp: t.TempDir()}
	d.cmd.Stdout = d.story
	d.cmd.Env = append(os.Environ(), "TMPDIR="+d.temp)
	_, d.wait = proctest.Start(t, d.cmd)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", d.story)
		}
	})
	return d
}

// get gets a page of the demo's.
func (d *running) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Timeout: proctest.Eternal, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(d.story.Await(t, `page at (http://[^/]+)/`) + path)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

// requireGone requires the demo's listeners and temporary files to be gone.
func (d *running) requireGone(t *testing.T, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		_, err := net.Dial("tcp", d.story.Await(t, pattern))
		require.ErrorIs(t, err, syscall.ECONNREFUSED, pattern)
	}
	left, err := os.ReadDir(d.temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTheDemoToItsVerdict(t *testing.T) {
	t.Parallel()
	r, err := redisserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(r.Stop)
	d := start(t, "-sessions", "60", "-lease", "9s", "-renew", "2250ms", "-stay", "-redis", r.URL)
	d.story.Await(t, "60 sessions are online")

	status, body := d.get(t, "/")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<title>A fleet of gateways")
	require.NotRegexp(t, `(?:src|href)="(?:https?:)?//`, body, "it needs nobody else")
	status, body = d.get(t, "/count")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "{\"sessions\":60}\n", body)
	status, body = d.get(t, "/presence/client-0002")
	require.Equal(t, http.StatusOK, status)
	var where presence
	require.NoError(t, json.Unmarshal([]byte(body), &where))
	require.Equal(t, "client-0002", where.Session)
	require.Equal(t, "node-2", where.Node)
	require.NotZero(t, where.Epoch)
	status, body = d.get(t, "/presence/%3Cimg%20src=x%3E")
	require.Equal(t, http.StatusNotFound, status)
	require.NotContains(t, body, "<")
	status, body = d.get(t, "/presence/"+strings.Repeat("x", 513))
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "512")

	require.Eventually(t, func() bool { return strings.Contains(d.story.String(), "verdict ") }, 5*time.Minute, 10*time.Millisecond)
	require.Contains(t, d.story.String(), "verdict pass: 60 sessions; offlines: expected 11, seen 11, wrong 0, lost 0")
	for _, line := range []string{
		"node-2 is killed (SIGKILL): the connections of 20 sessions are reset; 10 clients come back, 10 stay away",
		"10 are online elsewhere, after ", "10 are offline, 1", "node-3 is shut down (SIGTERM) with ",
		"client-0001 is kicked, from outside",
	} {
		require.Len(t, d.story.Lines(line), 1, line)
	}
	_, body = d.get(t, "/state")
	var s state
	require.NoError(t, json.Unmarshal([]byte(body), &s))
	require.EqualValues(t, 49, s.Online)
	require.Equal(t, verdict{Sessions: 60, Expected: 11, Seen: 11, Again: s.Verdict.Again, Older: s.Verdict.Older}, s.Verdict)
	for i, want := range []condition{up, killed, ended, up} {
		require.Equal(t, want, s.Nodes[i].State, s.Nodes[i].Name)
	}
	status, _ = d.get(t, "/presence/client-0001")
	require.Equal(t, http.StatusNotFound, status, "it was kicked")

	require.NoError(t, d.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, d.wait(), "exit code 0")
	d.requireGone(t, `page at http://([^/]+)/`, `node-1 is up at (\S+)`, `node-4 is up at (\S+)`)
	options, err := redis.ParseURL(r.URL)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	require.Empty(t, client.Keys(t.Context(), "*").Val(), "it leaves nothing behind in a Redis that is somebody else's")
}

func TestTheDemoIsInterrupted(t *testing.T) {
	for name, signal := range map[string]os.Signal{"terminated": syscall.SIGTERM, "its terminal is gone": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, "-sessions", "20")
			d.story.Await(t, "20 sessions are online")
			require.NoError(t, d.cmd.Process.Signal(signal))
			var exit *exec.ExitError
			require.ErrorAs(t, d.wait(), &exit)
			require.Equal(t, exitFailure, exit.ExitCode())
			require.Len(t, d.story.Lines("interrupted"), 1)
			require.NotContains(t, d.story.String(), "verdict")
			d.requireGone(t, `redis-server runs: redis://(\S+)`, `page at http://([^/]+)/`, `node-1 is up at (\S+)`)
		})
	}
}

func TestAPageThatStaysThoughASceneFails(t *testing.T) {
	t.Parallel()
	r, err := redisserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(r.Stop)
	d := start(t, "-sessions", "10", "-lease", "1s", "-stay", "-redis", r.URL)
	d.story.Await(t, "10 sessions are online")
	r.Stop()
	d.story.Await(t, "verdict fail: ")
	d.story.Await(t, "all goes on until Ctrl-C")
	status, _ := d.get(t, "/")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, d.cmd.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	require.ErrorAs(t, d.wait(), &exit)
	require.Equal(t, exitFailure, exit.ExitCode())
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for args, want := range map[string]string{
		"-sessions 9":         "fleet: invalid value 9 for flag -sessions: must be from 10 to 5000\n",
		"-lease 999ms":        "fleet: invalid value 999ms for flag -lease: must be at least 1s\n",
		"-lease 5s -renew 3s": "fleet: invalid value 3s for flag -renew: must be from 100ms to 2s, two fifths of the lease\n",
		"-lease soon":         `fleet: invalid value "soon" for flag -lease: parse error` + "\n",
		"now":                 `fleet: unexpected argument "now": there are only flags` + "\n",
		"-lease 200h":         "fleet: fleet: invalid argument: Lease 200h0m0s, must be from 300ms to 168h0m0s\n",
		"-redis http://x":     "fleet: fleet: invalid argument: URL of Redis",
		"-http nowhere":       `fleet: invalid value "nowhere" for flag -http: address nowhere: missing port in address`,
	} {
		var story, errors logtest.Log
		require.Equal(t, exitUsage, run(t.Context(), strings.Fields(args), &story, &errors), args)
		require.True(t, strings.HasPrefix(errors.String(), want), errors.String())
		require.Empty(t, story.String())
	}
	var story, help logtest.Log
	require.Zero(t, run(t.Context(), []string{"-h"}, &story, &help))
	require.Contains(t, help.String(), "-sessions")
}
