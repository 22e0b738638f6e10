package main

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/settings"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/server"
)

// environment returns the lookup function of an environment, for read.
func environment(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}
}

func TestFileEnvironmentAndFlags(t *testing.T) {
	path := configFile(t, `
# What the gateway of the north has.
addr	127.0.0.1:0
timeout      5m
  first-message 5s
max-age 24h
max-age-jitter 0.2
max-per-key 100
full evict
evict-min-idle 10s
close-mode half
dry-run
advise false
min-rate 10
drain-delay 5s
drain 1m
admin
log-format json
log-level warn
`)
	o, err := read([]string{"-max-age", "1h", "-config", path}, environment(map[string]string{
		"ECHO_HEARTBEAT_MAX_AGE":       "2h",
		"ECHO_HEARTBEAT_FIRST_MESSAGE": "6s",
		"ECHO_HEARTBEAT_CHECK":         "true",                // is for the command line only
		"ECHO_HEARTBEAT_PORT":          "tcp://10.0.0.1:9000", // as Kubernetes sets it for a service of this name
	}))
	require.NoError(t, err)
	require.Equal(t, server.Config{
		Addr: "127.0.0.1:0",
		Config: keepalive.Config{
			Timeout:      5 * time.Minute,
			FirstMessage: 6 * time.Second,
			Age:          keepalive.Age{Max: time.Hour, Jitter: 0.2},
			Room:         keepalive.Room{MaxPerKey: 100, Full: keepalive.FullEvict, MinIdle: 10 * time.Second},
			Closing:      keepalive.Closing{Mode: keepalive.CloseHalf, DryRun: true},
			Rate:         keepalive.Rate{MinBytes: 10},
		},
		DrainDelay: 5 * time.Second,
		Drain:      time.Minute,
	}, o.server)
	require.Equal(t, "json", o.logFormat)
	require.Equal(t, "warn", o.logLevel)
	require.Empty(t, o.admin)
	require.False(t, o.check)
	require.Equal(t, path+":4", o.From["timeout"])
	require.Equal(t, "ECHO_HEARTBEAT_FIRST_MESSAGE", o.From["first-message"])
	require.NotContains(t, o.From, "max-age", "it is from a flag")
}

func TestConfigFileFromTheEnvironment(t *testing.T) {
	path := configFile(t, "timeout 5m\n")
	env := environment(map[string]string{"ECHO_HEARTBEAT_CONFIG": path})
	o, err := read(nil, env)
	require.NoError(t, err)
	require.Equal(t, path, o.config)
	require.Equal(t, 5*time.Minute, o.server.Timeout)
	o, err = read([]string{"-config", configFile(t, "timeout 6m")}, env)
	require.NoError(t, err)
	require.Equal(t, 6*time.Minute, o.server.Timeout)
}

func TestErrorsOfTheFileNameItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"timeout 5m\nnonsense 1":          `FILE:2: unknown name "nonsense", must be that of a flag, with its value after a space`,
		"timeout=5m":                      `FILE:1: unknown name "timeout=5m", must be`,
		"-timeout 5m":                     `FILE:1: unknown name "-timeout", must be`,
		"TIMEOUT 5m":                      `FILE:1: unknown name "TIMEOUT", must be`,
		"\x00\xff":                        `FILE:1: unknown name "\x00\xff", must be`,
		"\n\n#\ntimeout 5 minutes":        `FILE:4: invalid value "5 minutes" for timeout: must be a duration such as 1m30s`,
		"timeout":                         `FILE:1: invalid value "" for timeout: must be a duration such as 1m30s`,
		"timeout 5m # per connection":     `FILE:1: invalid value "5m # per connection" for timeout: must be a duration`,
		"max-conns lots":                  `FILE:1: invalid value "lots" for max-conns: must be a whole number`,
		"max-conns -3":                    `FILE:1: invalid value "-3" for max-conns: must not be negative`,
		"max-conns":                       `FILE:1: invalid value "" for max-conns: must be a whole number`,
		"addr":                            `FILE:1: invalid value "" for addr: must be host:port`,
		"dry-run maybe":                   `FILE:1: invalid value "maybe" for dry-run: must be true or false`,
		"full never":                      `FILE:1: invalid value "never" for full: must be reject, wait or evict`,
		"timeout 5m\ntimeout 6m":          `FILE:2: timeout is in line 1 already, must be there once`,
		"config other":                    `FILE:1: config is for the command line only`,
		"check":                           `FILE:1: check is for the command line only`,
		"max-age-jitter +Inf":             `FILE:1: invalid value "+Inf" for max-age-jitter: must be a share such as 0.1`,
		"timeout 1s\ntick 1m":             "server: invalid argument: keepalive: invalid argument: Tick 1m0s is longer than Timeout 1s (timeout is from FILE:1, tick is from FILE:2)",
		"# no MaxAge\nmax-age-grace 5s":   "server: invalid argument: keepalive: invalid argument: Age.Grace 5s without an Age.Max (max-age-grace is from FILE:2)",
		"max-conns 999999999999":          "server: invalid argument: Room.MaxConns 999999999999: the process may have",
		"shutdown-timeout 1s\ndrain 1m":   "server: invalid argument: ShutdownTimeout 1s, must not be less than DrainDelay 0s and Drain 1m0s together (drain is from FILE:2, shutdown-timeout is from FILE:1)",
		strings.Repeat("# long\n", 1<<18): "FILE: longer than 1048576 bytes, must be at most that",
		strings.Repeat("x", 2<<20):        "FILE: longer than 1048576 bytes, must be at most that",
	} {
		path := configFile(t, text)
		want = strings.ReplaceAll(want, "FILE", path)
		for _, args := range [][]string{{"-config", path}, {"-config", path, "-check"}} {
			var out strings.Builder
			require.Equal(t, exitUsage, run(context.Background(), args, &out), want)
			require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
			require.True(t, strings.HasPrefix(out.String(), "echo-heartbeat: "+want), "%s\nwant %s", out.String(), want)
		}
	}
}

// A flag doesn't hide an error in the file: it would come out when the flag is gone.
func TestBadValueThatAFlagHides(t *testing.T) {
	_, err := read([]string{"-timeout", "5m", "-config", configFile(t, "timeout soon\n")}, environment(nil))
	require.ErrorContains(t, err, `:1: invalid value "soon" for timeout`)
}

func TestErrorsOfTheEnvironmentNameTheVariable(t *testing.T) {
	_, err := read(nil, environment(map[string]string{"ECHO_HEARTBEAT_MAX_AGE": "old"}))
	require.EqualError(t, err, `ECHO_HEARTBEAT_MAX_AGE: invalid value "old" for max-age: must be a duration such as 1m30s`)
}

func TestNamesFollowTheFields(t *testing.T) {
	fields := func(s settings.Setting) []string {
		switch s.Name {
		case "admin", "admin-hosts", "debug-allow-remote", "debug-hide-addrs", "config", "check", "t", "log-format", "log-level":
			return nil // the program's own
		}
		return []string{s.FieldName()}
	}
	for s := range newOptions().All {
		for _, name := range fields(s) {
			require.True(t, hasField(reflect.TypeFor[server.Config](), name), name)
		}
	}
}

// FuzzParse: any file is read, or refused with one line and its name. All its settings are in
// force.
func FuzzParse(f *testing.F) {
	f.Add("timeout 5m\n# x\nmax-age 24h\ndry-run\nfull evict\n")
	f.Add("addr :0\r\nmax-conns 5\r\n")
	f.Add("tick\t1ms\n\ttimeout 0x10s\n")
	f.Fuzz(func(t *testing.T, text string) {
		o := newOptions()
		err := o.Parse(strings.NewReader(text), "FILE")
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "FILE:"), err.Error())
			require.NotContains(t, err.Error(), "\n")
			return
		}
		var again strings.Builder
		for name := range o.From {
			s, ok := o.Find(name)
			require.True(t, ok)
			again.WriteString(name + " " + s.Value.String() + "\n")
		}
		other := newOptions()
		require.NoError(t, other.Parse(strings.NewReader(again.String()), "FILE"), again.String())
		for s := range o.All {
			same, _ := other.Find(s.Name)
			require.Equal(t, s.Value.String(), same.Value.String(), s.Name)
		}
	})
}

// hasField reports whether a struct has the field of a path such as Probe.After.
func hasField(in reflect.Type, path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		field, ok := in.FieldByName(name)
		if !ok {
			return false
		}
		in = field.Type
	}
	return true
}

// The log does not get a whole binary file.
func TestWhatMakesNoSenseIsCutShort(t *testing.T) {
	for _, text := range []string{strings.Repeat("\x00\xff", 1<<18), "timeout " + strings.Repeat("9", 1<<18)} {
		_, err := read([]string{"-config", configFile(t, text)}, environment(nil))
		require.Error(t, err)
		require.Less(t, len(err.Error()), 1000)
	}
}
