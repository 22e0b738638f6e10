package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/cli"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
)

func TestBadFlagsExitWithOneClearLine(t *testing.T) {
	for args, want := range map[string]string{
		"-nonsense":                     "timeoutd: flag provided but not defined: -nonsense",
		"-addr nowhere":                 `timeoutd: invalid value "nowhere" for flag -addr: must be host:port`,
		"-addr :8077":                   "timeoutd: addr :8077 can be reached from other machines and there are no tokens",
		"-addr 0.0.0.0:0":               "timeoutd: addr 0.0.0.0:0 can be reached",
		"-addr example.com:80":          "timeoutd: addr example.com:80 can be reached",
		"-admin-token 0123456789abcdef": "timeoutd: flag provided but not defined: -admin-token",
		"-redis redis://x":              "timeoutd: flag provided but not defined: -redis",
		"-memory -sqlite a":             "timeoutd: memory is there together with sqlite, database or redis, must be alone",
		"-ttl 1":                        `timeoutd: invalid value "1" for flag -ttl: must be a duration such as 1m30s`,
		"-grace -1s":                    `timeoutd: invalid value "-1s" for flag -grace: must not be negative`,
		"-max-conns -1":                 `timeoutd: invalid value "-1" for flag -max-conns: must not be negative`,
		"-concurrency 65537":            "timeoutd: concurrency 65537, must be 0 to 65536",
		"-known-topics -max-topics 7":   "timeoutd: known-topics is there together with max-topics 7, must be one of them",
		"-callback-allow 127.0.0.1":     `timeoutd: invalid value "127.0.0.1" for flag -callback-allow: must be networks such as 127.0.0.0/8`,
		"-etcd a:1 -zookeeper b:2":      `timeoutd: etcd ["a:1"] and zookeeper ["b:2"], must be one of them`,
		"-config /no/such/file":         "timeoutd: config: stat /no/such/file: no such file or directory",
		"-config .":                     "timeoutd: config: . is no regular file",
		"-memory now":                   `timeoutd: unexpected argument "now"`,
		"-log-format xml":               `timeoutd: invalid value "xml" for flag -log-format: must be text or json`,
		"-memory -index":                "timeoutd: index is there together with memory or redis, must be with sqlite or database",
		"-memory -sync":                 "timeoutd: sync is there together with memory, database or redis, must be with sqlite",
		"-memory -redis-volatile":       "timeoutd: redis-volatile is there, must be with redis, and without database",
		"-memory -redis-executions 7":   "timeoutd: redis-executions 7 is there, must be with redis, and without database",
		"-etcd-user u":                  "timeoutd: etcd-user or etcd-password is there without etcd, must be with it",
		"-etcd a:1 -etcd-user u":        "timeoutd: etcd-user and etcd-password, must be both or none",
		"-nats-prefix a.":               `timeoutd: nats-prefix "a." is there without nats, must be with it`,
		"-streams-prefix a:":            `timeoutd: streams-prefix "a:" is there without streams, must be with it`,
		"-peers 10.0.0.2:8077":          "timeoutd: peers is no URL",
		"-peers ftp://10.0.0.2":         `timeoutd: peers is a URL of scheme "ftp", must be one of ["http" "https"]`,
		"-memory -ttl 100ms":            "timeoutd: timeout: invalid argument: -ttl 100ms, must be at least 300ms",
	} {
		t.Run(args, func(t *testing.T) {
			var out strings.Builder
			require.Equal(t, cli.ExitUsage, run(context.Background(), strings.Fields(args), &out, &out))
			require.True(t, strings.HasPrefix(out.String(), want), out.String())
			require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
		})
	}
}

// A name with a mistake in it would leave the default, such as no limit, in its place.
func TestAnUnknownVariableIsAnErrorAlsoOfACheck(t *testing.T) {
	for pair, want := range map[string]string{
		"TIMEOUTD_MAX_CONN=7":       "timeoutd: TIMEOUTD_MAX_CONN is no variable of timeoutd: the nearest one is TIMEOUTD_MAX_CONNS\n",
		"TIMEOUTD_REDIS=redis://:x": "timeoutd: TIMEOUTD_REDIS is no variable of timeoutd: it is REDIS_URL\n",
		"timeoutd_max_conns=7":      "timeoutd: timeoutd_max_conns is no variable of timeoutd: it is TIMEOUTD_MAX_CONNS\n",
		"TIMEOUTD_URL=http://a":     "timeoutd: this makes sense\n",
	} {
		name, value, _ := strings.Cut(pair, "=")
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			var out strings.Builder
			exit := run(t.Context(), []string{"-memory", "-check"}, &out, &out)
			require.Equal(t, want, out.String())
			require.Equal(t, strings.HasSuffix(want, "sense\n"), exit == 0)
		})
	}
}

// environment returns a lookup of variables. Each name stands before its value.
func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// The file, the environment and the flags: the later one wins, and an error names its source.
func TestSettingsComeFromThreePlaces(t *testing.T) {
	path := configFile(t, "# a comment\nttl 3s\ngrace 4s\nadmin-token  one-0123456789abc  two-0123456789abc\nmemory\ncallback-allow 127.0.0.0/8, 10.0.0.0/8\n")
	o, err := read([]string{"-config", path, "-grace", "6s"}, environment("TIMEOUTD_TTL", "5s", "TIMEOUTD_GRACE", "5s", "REDIS_URL", ""))
	require.NoError(t, err)
	require.Equal(t, "5s", o.center.TTL.String())
	require.Equal(t, "6s", o.center.Grace.String())
	require.Equal(t, []string{"one-0123456789abc", "two-0123456789abc"}, o.adminTok)
	require.Len(t, o.calls.Allow, 2)
	require.True(t, o.memory)
	require.NoError(t, o.validate())

	o, err = read(nil, environment("REDIS_URL", "redis://:secret@h/0", "DATABASE_URL", "postgres://u:secret@h/d", "ETCD_ENDPOINTS", "a:1,b:2", "TIMEOUTD_CONFIG", configFile(t, "ttl 7s")))
	require.NoError(t, err)
	require.Equal(t, "redis://:secret@h/0", o.redis)
	require.Equal(t, []string{"postgres://u:secret@h/d"}, o.database)
	require.Equal(t, []string{"a:1", "b:2"}, o.etcd)
	require.Equal(t, "7s", o.center.TTL.String())
	require.NoError(t, o.validate())

	for text, want := range map[string]string{
		"nonsense 1":               `:1: unknown name "nonsense"`,
		"ttl 1s\nttl 2s":           ":2: ttl is in line 1 already",
		"config x":                 ":1: config is for the command line only",
		"ttl never":                `:1: invalid value "never" for ttl: must be a duration`,
		"\nmemory perhaps":         `:2: invalid value "perhaps" for memory: must be true or false`,
		strings.Repeat("#", 2<<20): "longer than 1048576 bytes",
	} {
		_, err := read([]string{"-config", configFile(t, text)}, environment())
		require.ErrorContains(t, err, want)
	}
	short, good := "whsec_"+strings.Repeat("c2Vj", 8), "whsec_"+strings.Repeat("c2Vj", 11)
	padded := good + "cw=="
	for want, pairs := range map[string][]string{
		"feedback-key 2 has 24 bytes, must have at least 32":   {"TIMEOUTD_FEEDBACK_KEY", good + " " + short},
		"feedback-key: timeout: invalid argument: secret of 6": {"TIMEOUTD_FEEDBACK_KEY", "secret"},
		"feedback-key 1 is a callback-secret, too":             {"TIMEOUTD_FEEDBACK_KEY", good, "TIMEOUTD_CALLBACK_SECRET", good},
		"feedback-key 2 is a callback-secret, too":             {"TIMEOUTD_FEEDBACK_KEY", good + " " + strings.TrimRight(padded, "="), "TIMEOUTD_CALLBACK_SECRET", padded},
		"peers is there without a read-token, must have one":   {"TIMEOUTD_PEERS", "http://a:1", "TIMEOUTD_ADMIN_TOKEN", "master-0123456789"},
	} {
		o, err := read(nil, environment(pairs...))
		require.NoError(t, err)
		require.ErrorContains(t, o.validate(), want)
	}
	o, err = read(nil, environment("DATABASE_URL", "postgres://u:secret@h/d  postgres://u:secret@h/d"))
	require.NoError(t, err)
	require.ErrorContains(t, o.validate(), "database 2 of 2 is there twice")
	for want, listen := range map[string]string{
		"database-listen has 1 URLs and database has 2, must be one for each": "postgres://u:secret@h/d",
		`database-listen is a URL of scheme "http"`:                           "postgres://u:secret@h/d http://u:secret@h/e",
	} {
		o, err := read(nil, environment("DATABASE_URL", "postgres://u@h/d postgres://u@h/e", "TIMEOUTD_DATABASE_LISTEN", listen))
		require.NoError(t, err)
		require.ErrorContains(t, o.validate(), want)
		require.NotContains(t, o.validate().Error(), "secret")
	}
	o, err = read(nil, environment("TIMEOUTD_DATABASE_LISTEN", "postgres://u@h/d"))
	require.NoError(t, err)
	require.ErrorContains(t, o.validate(), "database-listen has 1 URLs and database has 0")
}

// URLs are read as their clients read them, and no error shows a password.
func TestURLsAreChecked(t *testing.T) {
	check := func(name, url string) error {
		o, err := read(nil, environment(name, url))
		require.NoError(t, err)
		return o.validate()
	}
	for name, value := range map[string]string{"DATABASE_URL": "postgres://u@h/d mysql://u:secret@h/d", "REDIS_URL": "http://:secret@h", "NATS_URL": "\x7f://secret", "TIMEOUTD_ETCD_PASSWORD": "secret", "TIMEOUTD_READ_TOKEN": "secret"} {
		err := check(name, value)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "secret")
	}
	// The client would take localhost for the host, or a part of the password for host and port.
	for _, url := range []string{"redis:secret:6379", "redis:secret", "redis://u:12#secret@h", "redis://h/secret", "redis://u:1/secret@h", "redis://u:1?secret@h"} {
		for _, name := range []string{"REDIS_URL", "TIMEOUTD_STREAMS"} {
			err := check(name, url)
			require.Error(t, err, url)
			require.NotContains(t, err.Error(), "secret")
		}
	}
	for name, urls := range map[string][]string{
		"DATABASE_URL":     {"postgres://u:12?secret@h", "postgres://u:12?a=secret@h/d", "postgres://u:12/secret@h", "postgres://u:x@12?secret@h"},
		"REDIS_URL":        {"redis://u:12?protocol=secret@h"},
		"TIMEOUTD_STREAMS": {"redis://u:12?protocol=secret@h"},
		"NATS_URL":         {"nats://u:12?secret@h", "nats://h:1,nats://u:12?secret@i", "nats://u:12?se,secret@h"},
	} {
		for _, url := range urls {
			err := check(name, url)
			require.ErrorContains(t, err, "%3F for a question mark", url)
			require.NotContains(t, err.Error(), "secret")
		}
	}
	// The client of NATS takes these for two or three servers.
	for _, url := range []string{"nats://u:secret,x@h", "nats://u:12/secret,x@h", "nats://h:1,u:secret,x@i"} {
		err := check("NATS_URL", url)
		require.ErrorContains(t, err, "%2C for a comma", url)
		require.NotContains(t, err.Error(), "secret")
	}
	for name, urls := range map[string][]string{
		"DATABASE_URL": {"postgres://u:12%3F34@h/d", "postgres://u:12%2F34@h/d?user=a%40b", "postgres://h/a%40b", "postgres:///d?host=/tmp&user=a@b"},
		"NATS_URL": {
			"nats://u:p@h:1,nats://u:p@i:2", "nats://h:1, tls://u:p@i:2", "nats://u:p@h:1,i:2", "nats://h:1, i:2", "nats://h:1,", "h",
			"nats://[::1]:4222,[::2]:4222", "nats://h:1/,u:p@i:2", "ws://h/nats?a=b",
		},
	} {
		for _, url := range urls {
			require.NoError(t, check(name, url), url)
		}
	}
	for _, text := range []string{"redis://u:secret@h:1/0", "redis://u:1/secret@h:1/0"} {
		require.Equal(t, "h:1/0", where(text))
	}
	for _, text := range []string{"redis://u:1/secret#x@h:1/0", "redis://u:1?secret=x@h:1/0"} {
		require.Empty(t, where(text))
	}
}

func TestCompletionsKnowFlagsAndCommands(t *testing.T) {
	var out, errs strings.Builder
	require.Zero(t, run(t.Context(), []string{"completion", "bash"}, &out, &errs), errs.String())
	for _, word := range []string{" -callback-allow ", " drop-topic ", " help ", "words='text json'"} {
		require.Contains(t, out.String(), word)
	}
	require.Equal(t, cli.ExitUsage, run(t.Context(), []string{"completion", "sh"}, &out, &errs))
}

func TestHelpIsNoError(t *testing.T) {
	var out strings.Builder
	require.Zero(t, run(context.Background(), []string{"-h"}, &out, &out))
	names := 0
	for s := range newOptions().All {
		require.Contains(t, out.String(), s.Help)
		names++
	}
	require.Greater(t, names, 25)
	require.Contains(t, out.String(), "$DATABASE_URL, or in the config file database url")
}

func TestCheckOfGoodFlags(t *testing.T) {
	for _, flag := range []string{"-check", "-t"} {
		var out strings.Builder
		require.Zero(t, run(context.Background(), []string{flag, "-memory"}, &out, &out))
		require.Equal(t, "timeoutd: this makes sense\n", out.String())
	}
}

// No later failure tells of a setting that can't be, when -check has found that all makes sense.
func TestTheCheckKnowsWhatTheServerRefuses(t *testing.T) {
	t.Setenv("TIMEOUTD_READ_TOKEN", "")
	for want, args := range map[string][]string{
		`-callback-hosts "http://x/", must be a name`:                   {"-callback-hosts", "http://x/"},
		"-callback-allow ::ffff:10.0.0.0/104, must be":                  {"-callback-allow", "::ffff:10.0.0.0/104"},
		"-node has 300 bytes, must have at most":                        {"-node", strings.Repeat("x", 300)},
		"-max-body 9223372036854775807, must be at most 1073741824":     {"-max-body", "9223372036854775807"},
		`peers: timeout: invalid argument: the server's URL "http://h"`: {"-peers", "http://h?x=1"},
		"tls: stat /no/cert: no such file":                              {"-tls-cert", "/no/cert", "-tls-key", "/no/key"},
		`servers ["/x"], must each be a host or host:port`:              {"-zookeeper", "/x"},
	} {
		for _, more := range [][]string{{"-memory", "-check"}, {"-memory"}} {
			var out strings.Builder
			require.Equal(t, cli.ExitUsage, run(t.Context(), append(more, args...), &out, &out), args)
			require.Regexp(t, "^timeoutd: [^\n]+\n$", out.String())
			require.Contains(t, out.String(), want)
		}
	}
	t.Setenv("TIMEOUTD_READ_TOKEN", "ümlaut-0123456789")
	var out strings.Builder
	require.Equal(t, cli.ExitUsage, run(t.Context(), []string{"-memory", "-check"}, &out, &out))
	require.Contains(t, out.String(), "must have at least 16, of visible ASCII")
}

// The signal comes while the server waits for its store: it is told to end, and has not failed.
func TestASignalBeforeTheStoreAnswersIsNoFailure(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	t.Setenv("DATABASE_URL", "postgres://u@"+ln.Addr().String()+"/d")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := ln.Accept(); err == nil {
			defer conn.Close()
			_, _ = io.ReadFull(conn, make([]byte, 1)) // a question, and it gets no answer
			cancel()
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	var out strings.Builder
	require.Zero(t, run(ctx, []string{"-addr", "127.0.0.1:0"}, &out, &out), out.String())
	require.NotContains(t, out.String(), "level=ERROR")
}

func TestTakenAddressExitsWithFailure(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	var out strings.Builder
	require.Equal(t, cli.ExitFailure, run(context.Background(), []string{"-memory", "-addr", ln.Addr().String()}, &out, &out))
	require.Contains(t, out.String(), "address already in use")
}

// A refused target says which flag would allow it, when it is set and when it is called.
func TestRefusedTargetsNameTheFlags(t *testing.T) {
	p := start(t, process{args: []string{"-memory", "-callback-hosts", "*.example.com,127.0.0.1,10.0.0.1"}})
	for target, want := range map[string]string{
		"http://127.0.0.1/":    "must be public, or allowed by -callback-allow",
		"http://10.0.0.1/":     "must be public, or allowed by -callback-allow or -callback-allow-private",
		"http://example.org/x": "must be one of -callback-hosts",
	} {
		status, answer := p.ask(t, http.MethodPut, "/v1/topics/t/tasks/a", `{"callback":{"kind":"http","target":"`+target+`"}}`)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, answer, want+`"`, target)
	}
	c := caller{refusing{}}
	err := c.Call(t.Context(), timeout.Task{}, timeout.Callback{})
	require.ErrorIs(t, err, timeout.ErrPermanent, "it stays what it was")
	require.ErrorIs(t, err, httpcall.ErrRefused)
	require.EqualError(t, err, "httpcall: target refused: host x, must be one of -callback-hosts")
	require.NoError(t, c.Check(timeout.Callback{}))
}

// refusing is a caller for a target whose name leads to a refused address.
type refusing struct{ timeout.Caller }

func (refusing) Check(timeout.Callback) error { return nil }

func (refusing) Call(context.Context, timeout.Task, timeout.Callback) error {
	return timeout.Permanent(fmt.Errorf("%w: host x, must be one of Hosts", httpcall.ErrRefused))
}
