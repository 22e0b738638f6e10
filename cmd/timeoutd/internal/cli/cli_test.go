package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestMain(m *testing.M) { testmain.Run(m) }

const (
	eternal = time.Minute // how long a test waits for an event
	secret  = "secret-0123456789"
)

// shell runs commands against a server with a token.
type shell struct {
	t      *testing.T
	center *timeout.Center
	env    map[string]string
}

func start(t *testing.T, handlers map[string]timeout.Handler) *shell {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	center, err := timeout.New(engine, timeout.Config{Node: "node-1", Topic: timeout.Topic{Retries: -1, Retain: time.Hour}, TTL: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, center.Close()) })
	for topic, handler := range handlers {
		require.NoError(t, center.Handle(topic, handler))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- center.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	handler, err := api.New(center, api.Config{Engine: "memory", Tokens: []api.Token{{Secret: secret, Scope: api.Admin}}})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &shell{t, center, map[string]string{"TIMEOUTD_URL": server.URL, "TIMEOUTD_TOKEN": secret}}
}

func (s *shell) getenv(name string) (value string, ok bool) {
	value, ok = s.env[name]
	return value, ok
}

// run types a command.
func (s *shell) run(args ...string) (exit int, stdout, stderr string) {
	var out, errs strings.Builder
	exit = Run(s.t.Context(), args, s.getenv, &out, &errs)
	return exit, out.String(), errs.String()
}

// ok types a command that succeeds.
func (s *shell) ok(args ...string) string {
	s.t.Helper()
	exit, stdout, stderr := s.run(args...)
	require.Zero(s.t, exit, stderr)
	require.Empty(s.t, stderr)
	return stdout
}

func TestATaskFromAShell(t *testing.T) {
	s := start(t, nil)
	require.Regexp(t, `^orders/4711 is set for 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [+-]\d\d:\d\d, version 1; it was none\n$`, s.ok("set", "orders", "4711", "-after", "15m", "-payload", `{"n":12345678901234567890}`))
	require.Regexp(t, `it was pending`, s.ok("set", "-due", "4000000000000", "orders", "-payload", `{"n":12345678901234567890}`, "4711"), "flags may be anywhere")
	require.Contains(t, s.ok("set", "orders", "4711", "-if-absent"), "stays as it is: it is pending")
	require.Contains(t, s.ok("set", "orders", "4711", "-keep-due", "-after", "1s", "-payload", `{"n":12345678901234567890}`), "is set for 2096-10-02")
	_, _, stderr := s.run("set", "orders", "4711", "-keep-due", "-if-absent")
	require.Contains(t, stderr, "KeepDue and IfAbsent of orders/4711, must be one of them")
	shown := s.ok("get", "orders", "4711")
	require.Contains(t, shown, `{"n":12345678901234567890}`)
	require.Contains(t, shown, "orders/4711  pending")
	require.Contains(t, s.ok("move", "orders", "4711", "-due", "2099-01-02T03:04:05Z"), "is due at 2099")
	require.Contains(t, s.ok("list", "orders"), "4711")
	require.Contains(t, s.ok("get", "orders", "4711", "-json"), `"due":"2099-01-02T03:04:05.000Z"`)
	require.Equal(t, "orders/4711 is removed; it was pending\norders/none stays as it is: it is none\n", s.ok("remove", "orders", "4711", "none"))
	require.Contains(t, s.ok("move", "orders", "4711", "-after", "1s"), "only what is pending can be moved")
	require.NotContains(t, s.ok("list", "orders"), "4711")

	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s.ok("set", "orders", "traced", "-after", "1h", "-traceparent", parent)
	require.Regexp(t, `created +20\d\d(.|\n)*calls +0\nfailures +0\n(.|\n)*trace +`+parent, s.ok("get", "orders", "traced"))
	_, _, stderr = s.run("set", "orders", "traced", "-traceparent", "00-x")
	require.Contains(t, stderr, "must be as in W3C Trace Context")

	s.ok("set", "orders", "own", "-due", "2099-01-02T03:04:05Z", "-retries", "-1", "-backoff", "1d", "-timeout", "2h", "-not-after", "2099-02-02T03:04:05Z", "-metadata", "customer=7", "-metadata", "region=eu=1")
	require.Regexp(t, `retries +-1\nbackoff +24h0m0s\ntimeout +2h0m0s\nnot-after +2099-0[12]-0.*\nmetadata +customer=7 region=eu=1\n`, s.ok("get", "orders", "own"))
	require.Contains(t, s.ok("list", "orders", "-metadata", "region=eu=1", "-metadata", "customer=7"), "own")
	require.NotContains(t, s.ok("list", "orders", "-metadata", "customer=7", "-metadata", "region=us"), "own")

	s.ok("topic", "yearly", "-every", "0 0 1 1 *")
	require.Regexp(t, "yearly/1 is set for (20[0-9][0-9]-01-01|20[0-9][0-9]-12-31)", s.ok("set", "yearly", "1", "-on-schedule"))
	_, _, stderr = s.run("set", "orders", "1", "-on-schedule")
	require.Contains(t, stderr, "topic orders has no Every, must have one")
	_, _, stderr = s.run("set", "yearly", "1", "-on-schedule", "-after", "1s")
	require.Contains(t, stderr, "must be without both")

	file := filepath.Join(t.TempDir(), "payload")
	require.NoError(t, os.WriteFile(file, []byte{0xff, 0}, 0o600))
	s.ok("set", "orders", "-raw", "-payload", "@"+file, "--", "-a/b ü")
	require.Contains(t, s.ok("get", "orders", "--", "-a/b ü"), `"\xff\x00"`)
	s.ok("set", "orders", "called", "-after", "1h", "-callback", "nats:orders.unpaid", "-header", "A=b=c")
	task, err := s.center.Get(t.Context(), timeout.Key{Topic: "orders", ID: "called"})
	require.NoError(t, err)
	require.Equal(t, &timeout.Callback{Kind: "nats", Target: "orders.unpaid", Header: map[string]string{"A": "b=c"}}, task.Callback)
	s.ok("set", "orders", "called", "-after", "1h", "-callback", "http://example.com/x", "-method", "PUT", "-call-timeout", "3s")
	task, err = s.center.Get(t.Context(), timeout.Key{Topic: "orders", ID: "called"})
	require.NoError(t, err)
	require.Equal(t, &timeout.Callback{Kind: "http", Target: "http://example.com/x", Method: "PUT", Timeout: 3 * time.Second}, task.Callback)
}

// squeezed returns text with one space for several.
func squeezed(text string) string { return regexp.MustCompile(" +").ReplaceAllString(text, " ") }

func TestTopicsFromAShell(t *testing.T) {
	s := start(t, nil)
	exit, _, stderr := s.run("topic", "mail")
	require.Equal(t, ExitFailure, exit)
	require.Contains(t, stderr, `topic "mail"`)
	require.Contains(t, s.ok("topic", "mail", "-slots", "16", "-lease", "1m", "-rate", "2.5", "-retain-dead", "2d", "-max-dead", "7", "-callback", "http://example.com/"), "http http://example.com/")
	changed := squeezed(s.ok("topic", "mail", "-retries", "3", "-every", "10m", "-global-concurrency", "32"))
	for _, kept := range []string{"slots 16", "lease 1m0s", "rate 2.5", "retain-dead 48h0m0s", "max-dead 7", "retries 3", "priority 1", "every 10m", "global-concurrency 32", "global-rate 0", "http://example.com/"} {
		require.Contains(t, changed, kept, "what is not said stays")
	}
	require.Equal(t, "mail: paused\n", s.ok("pause", "mail"))
	s.ok("topic", "mail", "-retries", "4")
	require.Regexp(t, `mail +16 +4 .* paused`, s.ok("topics"), "a change is no end of a pause")
	require.Equal(t, "mail: runs\n", s.ok("resume", "mail"))
	require.Regexp(t, `^mail: paused until \d{4}-`, s.ok("pause", "mail", "-for", "1h"))
	require.Regexp(t, `^mail: paused until \d{4}-`, s.ok("pause", "mail", "-until", "2100-01-02T15:04:05Z"))
	require.Regexp(t, `mail +16 +4 .* paused until \d{4}-`, s.ok("topics"))
	_, _, stderr = s.run("pause", "mail", "-until", "2020-01-02T15:04:05Z")
	require.Contains(t, stderr, "must be after the engine's present time")
	_, _, stderr = s.run("pause", "mail", "-until", "2100-01-02T15:04:05Z", "-for", "1h")
	require.Contains(t, stderr, "must be one of them")
	require.Equal(t, "mail: runs\n", s.ok("resume", "mail"))
	_, _, stderr = s.run("close-circuit", "http a&b:80")
	require.Contains(t, stderr, `circuit "http a&b:80", must be one that is open on node`)
	require.Contains(t, squeezed(s.ok("topic", "mail")), "pending 0")
	exit, _, stderr = s.run("drop-topic", "mail")
	require.Equal(t, ExitUsage, exit)
	require.Contains(t, stderr, "-yes")
	require.Equal(t, "mail is gone\n", s.ok("drop-topic", "mail", "-yes"))
}

func TestDeadLettersFromAShell(t *testing.T) {
	fails := make(chan bool, 1)
	fails <- true
	s := start(t, map[string]timeout.Handler{"t": func(context.Context, timeout.Task) error {
		f := <-fails
		fails <- f
		if f {
			return errors.New("no\x1b[2Jway")
		}
		return nil
	}})
	for i := range 5 {
		s.ok("set", "t", fmt.Sprint(i))
	}
	s.ok("set", "t", "waits", "-after", "1h")
	require.Eventually(t, func() bool { return strings.Count(s.ok("dead", "t"), "no\uFFFD[2Jway") == 5 }, eternal, 10*time.Millisecond, "and nobody steers the terminal")
	require.NotContains(t, s.ok("get", "t", "1")+s.ok("executions", "t", "1"), "\x1b")
	require.Contains(t, s.ok("executions", "t", "1"), "dead")
	causes := s.ok("causes", "t")
	require.Regexp(t, `^CAUSE +TASKS +NEWEST +EXAMPLE +TARGET +ERROR\n[0-9a-f]{16}  5 .* [0-4]  +-  +no.\[…\n$`, causes)
	require.NotContains(t, causes, "\x1b")
	require.Equal(t, "0 run again\n", s.ok("replay", "t", "-cause", "another"))
	cause := strings.Fields(strings.Split(causes, "\n")[1])[0]
	require.Equal(t, "5 run again\n", s.ok("replay", "t", "-cause", cause))
	require.Eventually(t, func() bool { return strings.Contains(s.ok("causes", "t"), cause+"  5 ") }, eternal, 10*time.Millisecond, "they are dead again")

	require.Equal(t, "t/1 is dropped; it was dead\nt/waits stays as it is: it is pending\n", s.ok("drop", "t", "1", "waits"))
	<-fails
	fails <- false
	require.Equal(t, "t/2 runs again; it was dead\nt/waits stays as it is: it is pending\n", s.ok("replay", "t", "2", "waits"))
	require.Equal(t, "3 run again\n", s.ok("replay", "t", "-all"))
	require.Eventually(t, func() bool { return strings.Contains(squeezed(s.ok("topic", "t")), "done 4") }, eternal, 10*time.Millisecond)
	require.Equal(t, "0 dropped\n", s.ok("drop", "t", "-all"))
	require.Equal(t, "{\"changed\":0,\"more\":false}\n", s.ok("drop", "t", "-all", "-json"))
	for _, bad := range [][]string{{"replay", "t"}, {"drop", "t"}, {"drop", "t", "1", "-all"}, {"replay", "t", "-all", "-cause", "x"}} {
		exit, _, _ := s.run(bad...)
		require.Equal(t, ExitUsage, exit)
	}
}

func TestFeedbackFromAShell(t *testing.T) {
	tokens := make(chan string, 2)
	s := start(t, map[string]timeout.Handler{"t": func(ctx context.Context, _ timeout.Task) error {
		token, _ := timeout.TokenOf(ctx)
		tokens <- token.String()
		return timeout.ErrAccepted
	}})
	s.ok("set", "t", "1")
	token := <-tokens
	require.Equal(t, "settled\n", s.ok("feedback", token, "-error", "no", "-permanent"))
	exit, _, stderr := s.run("feedback", token)
	require.Equal(t, ExitFailure, exit)
	require.Contains(t, stderr, "too late")
	exit, stdout, stderr := s.run("feedback", token, "-json")
	require.Equal(t, ExitFailure, exit, "-json is no other outcome")
	require.Equal(t, "{\"settled\":false}\n", stdout)
	require.Contains(t, stderr, "too late")
	require.Contains(t, s.ok("dead", "t"), "no")
}

func TestListsOfManyPages(t *testing.T) {
	s := start(t, nil)
	for i := range 250 {
		_, err := s.center.Set(t.Context(), timeout.Task{Topic: "t", ID: fmt.Sprint("task-", i), After: time.Hour})
		require.NoError(t, err)
	}
	require.Contains(t, s.ok("list", "t", "-limit", "60"), "There are more")
	require.Equal(t, 250, strings.Count(s.ok("list", "t", "-limit", "60", "-all"), "task-"))
	pages := s.ok("list", "t", "-limit", "60", "-all", "-json")
	require.Equal(t, 250, strings.Count(pages, `"id":"task-`))
	require.Equal(t, 5, strings.Count(pages, "\n"), "each page is a line")
	first := s.ok("list", "t", "-limit", "60", "-json")
	require.Equal(t, 60, strings.Count(first, `"id":"task-`))
	require.True(t, strings.HasPrefix(pages, first))
	exit, _, stderr := s.run("list", "t", "-limit", "0")
	require.Equal(t, ExitFailure, exit)
	require.Contains(t, stderr, `limit "0", must be a number from 1 to 1000`)
}

func TestWatch(t *testing.T) {
	s := start(t, map[string]timeout.Handler{"orders": func(context.Context, timeout.Task) error { return nil }})
	s.ok("set", "orders", "1")
	require.Eventually(t, func() bool { return strings.Contains(s.ok("members"), "orders") }, eternal, 10*time.Millisecond)
	require.Regexp(t, `node-1 +leader, answers +- orders`, s.ok("members"))
	require.Eventually(t, func() bool { return strings.Contains(s.ok("stats"), "8 of 8") }, eternal, 10*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs logtest.Log
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"watch", "-every", "100ms"}, s.getenv, &out, &errs)
	}()
	out.Await(t, `led by node-1(?s:.*)led by node-1`)
	cancel()
	require.Zero(t, <-ended, errs.String())
	require.NotContains(t, out.String(), "\x1b", "it is no terminal")
	require.Regexp(t, `(?m)^\d\d:\d\d:\d\d [+-]\d\d:\d\d  node-1`, out.String())
	s.env["TIMEOUTD_TOKEN"] = "wrong"
	exit, _, stderr := s.run("watch")
	require.Equal(t, ExitFailure, exit)
	require.Contains(t, stderr, "the token is not known")
}

// On a terminal nothing scrolls, however long the text is.
func TestRoomOnATerminal(t *testing.T) {
	text := over(strings.Repeat("äbcdefghij\n", 50), 5, 10).String()
	require.Equal(t, 9, strings.Count(text, "\n"))
	require.Contains(t, text, "äbcd…"+clearLine+"\n")
	require.Contains(t, over(strings.Repeat("x\n", 50), 80, 10).String(), "and 42 more lines")
	require.Equal(t, home+"a"+clearLine+"\n"+clearRest, over("a\n", 80, 24).String())
}

func TestBadCommands(t *testing.T) {
	s := start(t, nil)
	for line, want := range map[string]string{
		"nonsense":                         `unknown command "nonsense": timeoutd help lists them`,
		"set":                              `set with the words [], must be: timeoutd set TOPIC ID`,
		"set a b c":                        `set with the words ["a" "b" "c"]`,
		"set a b -after":                   "set: flag needs an argument: -after",
		"set a b -metadata x":              `must be name=value`,
		"set a b -not-after x":             `time "x"`,
		"set a b -after tomorrow":          `must be a duration such as 1m30s or 2d`,
		"set a b -after -1s":               `must be a duration such as 1m30s or 2d, and not negative`,
		"set a b -due tomorrow":            `action time "tomorrow", must be as 2026-01-02T15:04:05Z`,
		"set a b -due 1796000000":          `seconds since 1970 and 1970-01-21T18:53:20Z as milliseconds: milliseconds?`,
		"move a b -due 1796000000":         `milliseconds?`,
		"set a b -due null":                `action time "null", must be as 2026-01-02T15:04:05Z`,
		"set a b -payload {":               `the payload "{" is no JSON; with -raw it may be anything`,
		"set a b -header x -callback http": `must be name=value`,
		"move a b":                         "must have one",
		"move a b -after 1s -due 0":        "must have one",
		"get a ..":                         `get with the id "..", which fits into no path`,
		"watch -every 1ms":                 "-every 1ms, must be at least 100ms",
		"topics -url ftp://x":              `the server's URL "ftp://x", must be as http://127.0.0.1:8077`,
		"topics -url http://u:p@x":         `the server's URL`,
		"stats -nonsense":                  "stats: flag provided but not defined: -nonsense",
	} {
		exit, stdout, stderr := s.run(strings.Fields(line)...)
		require.Equal(t, ExitUsage, exit, "%s: %s", line, stderr)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want)
		require.Equal(t, 1, strings.Count(stderr, "\n"))
	}
	for line, want := range map[string]string{
		"set !a b":                       `topic "!a", must be letters`,
		"get a nobody":                   "not found: task a/nobody",
		"set a b -after 1s -due 0":       "must be one of them",
		"set a b -payload @/no/file":     "payload: open /no/file",
		"topics -url http://127.0.0.1:1": "connection refused",
	} {
		exit, _, stderr := s.run(strings.Fields(line)...)
		require.Equal(t, ExitFailure, exit, line)
		require.Contains(t, stderr, want, line)
	}
	require.Equal(t, ExitFailure, func() int { e, _, _ := s.run("set", "a", "b", "-callback", ""); return e }())
}

func TestHelp(t *testing.T) {
	s := start(t, nil)
	text := s.ok("help")
	for _, c := range commands() {
		require.Contains(t, text, "\n  "+c.name)
		require.Contains(t, s.ok(c.name, "-h"), "Usage: timeoutd "+c.name)
	}
}

// The token goes to no other server. Any other server than a timeoutd is an error.
func TestOtherServers(t *testing.T) {
	var asked int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	away := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer away.Close()
	s := start(t, nil)
	exit, _, stderr := s.run("topics", "-url", away.URL)
	require.Equal(t, ExitFailure, exit)
	require.Contains(t, stderr, "307 Temporary Redirect")
	require.Zero(t, asked)
	exit, _, stderr = s.run("topics", "-url", other.URL)
	require.Equal(t, ExitFailure, exit)
	require.Contains(t, stderr, "the answer makes no sense")
}

// A script sees by the exit code that one of many tasks has failed, also with -json.
func TestOneFailureOfManyIsAFailure(t *testing.T) {
	const answers = `{"answers":[{"was":"dead","changed":true},{"was":"none","changed":false,"error":{"title":"Insufficient Storage","status":507,"detail":"timeout: full"}}]}`
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answers + "\n")) }))
	defer half.Close()
	s := start(t, nil)
	for _, verb := range []string{"remove", "replay", "drop"} {
		for flag, want := range map[string]string{"-json=false": "t/2: timeout: full\n", "-json": answers} {
			exit, stdout, stderr := s.run(verb, "t", "1", "2", "-url", half.URL, flag)
			require.Equal(t, ExitFailure, exit, verb+flag)
			require.Contains(t, stdout, want)
			require.Equal(t, "timeoutd: 1 of 2 could not be done\n", stderr)
		}
	}
}
