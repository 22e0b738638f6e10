package main

// suite is one of other people's.
type suite struct {
	name     string
	module   string   // copied and edited, or "": a package of this module calls the suite
	folder   string   // in the module
	packages []string // to be tested
	run      string   // regular expression for tests, or "": all
	skip     string   // regular expression for tests that are left out
	apart    string   // regular expression for tests in a process of their own
	edits    []edit
	meant    []difference
}

var suites = []suite{
	{
		name:     "nettest",
		packages: []string{"./nettest"},
		// After a write that timed out, a connection of crypto/tls can write no more, by its documentation.
		// These three write on, and wait a minute for that, in the control, too.
		skip: `^TestConn/.*/.*-tls/.*/^(PastTimeout|FutureTimeout|ConcurrentMethods)$`,
	},
	{name: "grpc", packages: []string{"./grpc"}},
	{name: "h2spec", packages: []string{"./h2spec"}},
	{name: "h2c", packages: []string{"./h2c"}},
	{
		name:     "gorilla",
		module:   "github.com/gorilla/websocket",
		packages: []string{"."},
		edits: []edit{
			{"client_server_test.go", importTest, importBoth, 1},
			{"client_server_test.go", `httptest\.New`, "guard.New", 10},
		},
	},
	{
		name:     "coder",
		module:   "github.com/coder/websocket",
		packages: []string{"./..."},
		skip:     "^TestMask", // minutes of arithmetic, without a connection
		edits: []edit{
			{"conn_test.go", importTest, importGuard, 1},
			{"conn_test.go", `httptest\.NewServer\(`, "guard.NewServer(", 1},
			{"dial_test.go", importTest, importBoth, 1},
			{"dial_test.go", `httptest\.NewServer\(`, "guard.NewServer(", 2},
			{"internal/test/wstest/pipe.go", importTest, importBoth, 1},
			{"main_test.go", `code := m\.Run\(\)`, "code := m.Run()\n\tguard.Close()", 1}, // it counts goroutines
			{"main_test.go", `\t"testing"\n`, "${0}" + importGuard, 1},
			{"internal/test/wstest/pipe.go", `net\.Pipe\(\)`, "guard.Pipe()", 1},
		},
	},
	{
		name:     "gnet",
		module:   "github.com/panjf2000/gnet/v2",
		packages: []string{"."},
		edits: []edit{
			{"*_test.go", `= Run\(`, "= guardedRun(", 46},
			{"*_test.go", `= Rotate\(`, "= guardedRotate(", 1},
			{"*_test.go", `= NewClient\(`, "= guardedClient(", 4},
			// A tenth of the time is enough for what each of them says.
			{"*_test.go", `\(rand\.Float64\(\)\*2\+1\)\*float64\(time\.Second\)\) / 2`, "(rand.Float64()*2+1)*float64(time.Second)) / 20", 4},
			{"gnet_test.go", `duration = (\d) \* time\.Second`, "duration = $1 * time.Second / 10", 4},
			// The client ends the engine upon the answer, and then the packet must have been counted.
			{"os_unix_test.go", `(\t_, err = c\.Write\(b\)\n.*\n)(\ts\.packets\.Add\(1\)\n)`, "${2}${1}", 1},
		},
		skip: "^(TestConnMatrix|TestServeGC)$", // they count connections that say nothing
		// Apart, since they print the guard while it is used, by its fields.
		apart: "^(TestSafeContext|TestClientSafeContext)$",
		meant: []difference{{
			`\.Test(Client)?SafeContext$`, 2, `keepalive\.Guard`,
			"on gnet the guard of a connection is in SafeContext: docs/decisions/0007-safecontext.md",
		}},
	},
	{
		name:     "gozero",
		module:   "github.com/zeromicro/go-zero",
		folder:   "core/collection",
		packages: []string{"."},
		run:      "TimingWheel|TestCache|TestMoveAndRemoveTask",
		edits: []edit{
			{wheelFile, `\bNewTimingWheel`, "newControlWheel", 5},
			{wheelFile, `([*&]|\t)TimingWheel\b`, "${1}controlWheel", 20},
			{wheelTests, `timex\.NewFakeTicker\(\)`, "newFakeTicker()", 18},
			{wheelTests, `t\.Run\(stringx\.RandId\(\), func\(t \*testing\.T\) \{\n\t*t\.Parallel\(\)\n`, "run(t, fmt.Sprint(test), func(t *testing.T) {\n", 5},
			{wheelTests, `t\.Run\("", `, `run(t, "", `, 1},
			{
				wheelTests, `func (TestTimingWheel_(?:` + inOneBubble + `)|TestMoveAndRemoveTask)\(t \*testing\.T\) \{`,
				"func ${1}(t *testing.T) { bubble(t, in${1}) }\n\nfunc in${1}(t *testing.T) {", 12,
			},
			{wheelTests, `assert\.Equal\(t, int32\((test\..*)\), actual\)`, "fires(t, int32(${1}), actual)", 5},
			{wheelTests, `"github.com/zeromicro/go-zero/core/(stringx|timex)"`, "", 2},
			// These two are about values. A test that gives up leaves goroutines in its bubble.
			{wheelTests, `ticker\.Tick\(\)\n\n(\t+(?:// Wait for execution|done := make))`, "ripen(ticker)\n\n${1}", 2},
			{wheelTests, `"sort"`, "\"fmt\"\n\t\"sort\"", 1},
		},
		meant: []difference{
			{
				`\.TestTimingWheel_(SetTimer|SetAndMove\w+|ElapsedAnd\w+)/`, 35, `late by ticks: 1\n`,
				"nothing fires early: the interval of the call does not count as a whole one",
			},
			{
				`\.TestTimingWheel_(Set|Move)TimerSoon$`, 2, `"timeout"`,
				"the same: half an interval has not passed after the first tick, and a move to it fires nothing at once",
			},
		},
	},
}

// The files of go-zero's wheel, and the tests in them that go into a bubble as a whole.
const (
	wheelFile   = "core/collection/timingwheel.go"
	wheelTests  = "core/collection/timingwheel_test.go"
	inOneBubble = "Drain|SetTimerSoon|SetTimerTwice|SetTimerWrongDelay|SetTimerAfterClose|MoveTimer|MoveTimerSoon|" +
		"MoveTimerEarlier|RemoveTimer|DrainClosureBug|RunTasksClosureBug"
)

// Imports of package httptest, and of what takes its place.
const (
	importTest  = "\t\"net/http/httptest\"\n"
	importGuard = "\t\"github.com/heartwheel-go/heartwheel/tools/conformance/guard\"\n"
	importBoth  = importTest + importGuard
)
