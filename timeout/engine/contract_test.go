package engine_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func TestTokensSurviveTheirText(t *testing.T) {
	for _, token := range []engine.Token{
		{Key: engine.Key{Topic: "orders", ID: "4711"}, Lease: 7, Part: "0"},
		{Key: engine.Key{Topic: "a.b:c", ID: "{user 7}/ü/\" "}, Lease: 1<<63 - 1},
		{Key: engine.Key{Topic: "t", ID: "x@1"}, Lease: 7, Begun: 1764060000000, Proof: "a\nb"},
	} {
		back, err := engine.ParseToken(token.String())
		require.NoError(t, err)
		require.Equal(t, token, back)
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(engine.Token{Key: engine.Key{Topic: "t", ID: "id"}, Lease: 1, Part: "p"}.String())
	f.Add(engine.Token{Key: engine.Key{Topic: "t", ID: "id"}, Lease: 1, Begun: 1764060000000}.String())
	f.Add("////")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := engine.ParseToken(text)
		if err != nil {
			require.ErrorIs(t, err, engine.ErrArgument)
			return
		}
		back, err := engine.ParseToken(token.String())
		require.NoError(t, err)
		require.Equal(t, token, back)
	})
}

// An earlier lease of the same version has ended.
func TestTheLastLeaseOfATaskInACallLasts(t *testing.T) {
	lease := func(id string, number int64, attempts int, again bool) engine.Leased {
		key := engine.Key{Topic: "orders", ID: id}
		return engine.Leased{Task: engine.Task{Topic: key.Topic, ID: id, Attempts: attempts}, Token: engine.Token{Key: key, Lease: number}, Again: again}
	}
	other, last := lease("2", 2, 1, false), lease("1", 4, 1, false)
	for _, before := range []engine.Leased{lease("1", 1, 1, false), lease("1", 1, 3, true)} {
		require.Equal(t, []engine.Leased{other, last}, engine.Lasting([]engine.Leased{before, other, last}))
	}
	ended := lease("1", 3, 2, true)
	require.Equal(t, []engine.Leased{other, ended}, engine.Lasting([]engine.Leased{lease("1", 1, 1, false), other, ended}))
	require.Empty(t, engine.Lasting(nil))

	replaced := lease("1", 1, 1, false) // by a set between two steps of the call
	replaced.Version = 7
	require.Equal(t, []engine.Leased{replaced, last}, engine.Lasting([]engine.Leased{replaced, last}))
}

func TestTheSlotIsTheHashOfTheIDOrOfWhatStandsInBraces(t *testing.T) {
	require.Equal(t, uint32(0xcbf43926), engine.Hash("123456789"), "the check value of CRC-32")
	require.Equal(t, engine.Hash("user-7"), engine.Hash("{user-7}/reminder"))
	require.Equal(t, engine.Hash("user-7"), engine.Hash("a{user-7}{b}"))
	require.NotEqual(t, engine.Hash(""), engine.Hash("{}x"))
	seen := map[int]bool{}
	for i := range 1000 {
		seen[engine.Slot(fmt.Sprint("task-", i), 8)] = true
	}
	require.Len(t, seen, 8)
	require.Zero(t, engine.Slot("anything", 1))
}

func TestNothingIsDueBeforeItsTimeForTheRounding(t *testing.T) {
	due := time.UnixMilli(1000).Add(time.Nanosecond)
	require.EqualValues(t, 1001, engine.Millis(due))
	require.EqualValues(t, 1000, engine.Millis(time.UnixMilli(1000)))
	require.EqualValues(t, 1001, engine.Task{Due: due}.DueAt(5))
	require.EqualValues(t, 6, engine.Task{After: time.Microsecond}.DueAt(5))
	require.EqualValues(t, 5, engine.Task{}.DueAt(5))
	require.Equal(t, int64(253402300799999), engine.Task{After: 1<<63 - 1}.DueAt(253402300799990))
}

func TestWhatNoEngineCouldKeepIsRefused(t *testing.T) {
	good := engine.Task{Topic: "orders", ID: "1"}
	require.NoError(t, good.Check())
	for _, change := range []func(*engine.Task){
		func(t *engine.Task) { t.Topic = "" },
		func(t *engine.Task) { t.Topic = "a{b}" },
		func(t *engine.Task) { t.Topic = ".a" },
		func(t *engine.Task) { t.Topic = strings.Repeat("a", 101) },
		func(t *engine.Task) { t.ID = "" },
		func(t *engine.Task) { t.ID = "a\nb" },
		func(t *engine.Task) { t.ID = "." },
		func(t *engine.Task) { t.ID = ".." },
		func(t *engine.Task) { t.ID = "\xff" },
		func(t *engine.Task) { t.ID = strings.Repeat("a", 256) },
		func(t *engine.Task) { t.Payload = make([]byte, 1<<20+1) },
		func(t *engine.Task) { t.After = -1 },
		func(t *engine.Task) { t.After = engine.MaxDuration + 1 },
		func(t *engine.Task) { t.After = 1<<63 - 1 },
		func(t *engine.Task) { t.Due = time.Unix(-1, 0) },
		func(t *engine.Task) { t.Due = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		func(t *engine.Task) { t.Due = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC) },
		func(t *engine.Task) { t.Callback = &engine.Callback{Kind: "http"} },
	} {
		bad := good
		change(&bad)
		require.ErrorIs(t, bad.Check(), engine.ErrArgument, "%+v", bad.Key())
		if bad.Payload == nil && bad.Callback == nil {
			require.ErrorIs(t, engine.Move{Key: bad.Key(), Due: bad.Due, After: bad.After}.Check(), engine.ErrArgument, "%+v", bad)
		}
	}
	require.NoError(t, engine.Move{Key: good.Key(), After: time.Hour}.Check())
	require.NoError(t, engine.Move{Key: good.Key(), After: engine.MaxDuration}.Check())
	require.NoError(t, engine.Move{Key: good.Key(), Due: time.UnixMilli(1), Version: 7}.Check())
	require.ErrorContains(t, engine.Move{Key: good.Key(), Due: time.UnixMilli(1), Version: -1}.Check(), "version -1 of a move of")
	require.ErrorContains(t, engine.Move{Key: good.Key(), After: time.Hour, Version: 7}.Check(), "must not be negative, and be with a Due")
	require.ErrorContains(t, engine.Task{Topic: "t", ID: "a", After: 1<<63 - 1}.Check(), "After 2562047h47m16.854775807s of t/a, must be at most 876000h0m0s")
	require.ErrorContains(t, engine.Task{Topic: "t", ID: "a", PayloadBytes: 7}.Check(), "payload of t/a is left out")
}

func TestAListIsOfOneTopicAndOneStateAndHasALimit(t *testing.T) {
	for _, limit := range []int{0, 1, engine.MaxPage} {
		for state := engine.Pending; state <= engine.Removed; state++ {
			require.NoError(t, engine.Query{Topic: "orders", State: state, Limit: limit}.Check())
		}
	}
	for want, bad := range map[string]engine.Query{
		"topic has 0 bytes":                       {State: engine.Done},
		"state none of a list":                    {Topic: "orders"},
		"state State(6) of a list":                {Topic: "orders", State: engine.Removed + 1},
		"Limit -1 of a list":                      {Topic: "orders", State: engine.Done, Limit: -1},
		"Limit 1001 of a list, must be 0 to 1000": {Topic: "orders", State: engine.Done, Limit: 1001},
	} {
		err := bad.Check()
		require.ErrorIs(t, err, engine.ErrArgument)
		require.ErrorContains(t, err, want)
	}
}

func TestATopicHasUpperLimitsToo(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    func(topic *engine.Topic, beyond bool)
		errors []string // the value and the limit
	}{
		{"Slots", func(t *engine.Topic, b bool) { t.Slots = pick(b, 1024, 2048) }, []string{"Slots 2048", "1024"}},
		{"Retries", func(t *engine.Topic, b bool) { t.Retries = pick(b, 1_000_000, 1_000_001) }, []string{"Retries 1000001", "1000000"}},
		{"Concurrency", func(t *engine.Topic, b bool) { t.Concurrency = pick(b, 65536, 65537) }, []string{"Concurrency 65537", "65536"}},
		{"Concurrency below", func(t *engine.Topic, b bool) { t.Concurrency = pick(b, 0, -1) }, []string{"Concurrency -1", "65536"}},
		{"Rate", func(t *engine.Topic, b bool) { t.Rate = pick(b, 1e6, 1e6+1) }, []string{"Rate 1.000001e+06", "1e+06"}},
		{"Rate below", func(t *engine.Topic, b bool) { t.Rate = pick(b, 1e-6, 9e-7) }, []string{"Rate 9e-07", "1e-06"}},
		{"infinite Rate", func(t *engine.Topic, b bool) { t.Rate = pick(b, 0, math.Inf(1)) }, []string{"Rate +Inf", "1e+06"}},
		{"no Rate", func(t *engine.Topic, b bool) { t.Rate = pick(b, 0, math.NaN()) }, []string{"Rate NaN", "1e+06"}},
		{"Priority", func(t *engine.Topic, b bool) { t.Priority = pick(b, 1000, 1001) }, []string{"Priority 1001", "1000"}},
		{"Priority below", func(t *engine.Topic, b bool) { t.Priority = pick(b, 0, -1) }, []string{"Priority -1", "1000"}},
		{"GlobalConcurrency", func(t *engine.Topic, b bool) { t.GlobalConcurrency = pick(b, 1<<20, 1<<20+1) }, []string{"GlobalConcurrency 1048577", "1048576"}},
		{"GlobalConcurrency below", func(t *engine.Topic, b bool) { t.GlobalConcurrency = pick(b, 0, -1) }, []string{"GlobalConcurrency -1", "1048576"}},
		{"GlobalConcurrency and Slots", func(t *engine.Topic, b bool) { t.Slots, t.GlobalConcurrency = 8, pick(b, 8, 7) }, []string{"GlobalConcurrency 7", "slots, 8"}},
		{"GlobalRate", func(t *engine.Topic, b bool) { t.GlobalRate = pick(b, 1e6, 1e6+1) }, []string{"GlobalRate 1.000001e+06", "1e+06"}},
		{"GlobalRate below", func(t *engine.Topic, b bool) { t.GlobalRate = pick(b, 1e-6, 9e-7) }, []string{"GlobalRate 9e-07", "1e-06"}},
		{"no GlobalRate", func(t *engine.Topic, b bool) { t.GlobalRate = pick(b, 0, math.NaN()) }, []string{"GlobalRate NaN", "1e+06"}},
		{"GlobalConcurrency and Pull", func(t *engine.Topic, b bool) { t.Pull, t.GlobalConcurrency = true, pick(b, 0, 9) }, []string{"Pull of topic orders", "GlobalConcurrency 9"}},
		{"GlobalRate and Pull", func(t *engine.Topic, b bool) { t.Pull, t.GlobalRate = true, pick(b, 0, 0.5) }, []string{"Pull of topic orders", "GlobalRate 0.5"}},
		{"Backoff", func(t *engine.Topic, b bool) { t.Backoff = years(b) }, []string{"Backoff 876000h0m0.000000001s", "876000h0m0s"}},
		{"BackoffMax", func(t *engine.Topic, b bool) { t.BackoffMax = years(b) }, []string{"BackoffMax 876000h0m0.000000001s", "876000h0m0s"}},
		{"Lease", func(t *engine.Topic, b bool) { t.Lease = years(b) }, []string{"Lease 876000h0m0.000000001s", "876000h0m0s"}},
		{"Timeout", func(t *engine.Topic, b bool) { t.Timeout = years(b) }, []string{"Timeout 876000h0m0.000000001s", "876000h0m0s"}},
		{"Retain", func(t *engine.Topic, b bool) { t.Retain = years(b) }, []string{"Retain 876000h0m0.000000001s", "876000h0m0s"}},
		{"RetainLog", func(t *engine.Topic, b bool) { t.RetainLog = years(b) }, []string{"RetainLog 876000h0m0.000000001s", "876000h0m0s"}},
		{"Callback", func(t *engine.Topic, b bool) {
			t.Callback = &engine.Callback{Kind: "http", Target: "http://x", Timeout: years(b)}
		}, []string{"Timeout 876000h0m0.000000001s of a callback", "876000h0m0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			topic := engine.Topic{Name: "orders"}
			c.set(&topic, false)
			require.NoError(t, topic.Check(), "at the limit")
			require.NoError(t, topic.WithDefaults().Check())
			c.set(&topic, true)
			err := topic.Check()
			require.ErrorIs(t, err, engine.ErrArgument)
			for _, want := range c.errors {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func pick[T any](beyond bool, at, other T) T {
	if beyond {
		return other
	}
	return at
}

// years is the longest duration, or one that is longer.
func years(beyond bool) time.Duration {
	return pick(beyond, engine.MaxDuration, engine.MaxDuration+1)
}

func TestSlotsAreDealtEvenlyAndFewChangeHands(t *testing.T) {
	view := func(names ...string) (v engine.View) {
		for _, name := range names {
			v.Nodes = append(v.Nodes, engine.Node{Name: name})
		}
		return v
	}
	four := view("a", "b", "c", "d")
	require.Equal(t, "a", four.Leader())
	before := four.Owners("orders", 64)
	for _, node := range four.Nodes {
		mine := engine.SlotsOf(four.Owners("orders", 64), node.Name)
		require.Len(t, mine, 16)
		for _, slot := range mine {
			require.Equal(t, node.Name, before[slot])
		}
	}
	moved := 0
	for slot, owner := range view("a", "b", "c").Owners("orders", 64) {
		if before[slot] != "d" && before[slot] != owner {
			moved++
		}
	}
	require.Less(t, moved, 16)
	require.Empty(t, engine.SlotsOf(four.Owners("orders", 64), "nobody"))
	require.Empty(t, engine.View{}.Owners("orders", 8)[0])
	require.Empty(t, engine.View{}.Leader())
}

func TestSlotsBelongToNodesThatServeTheTopic(t *testing.T) {
	view := engine.View{Nodes: []engine.Node{{Name: "a", Topics: []string{"mails"}}, {Name: "b", Topics: []string{}}, {Name: "c"}}}
	require.Len(t, engine.SlotsOf(view.Owners("orders", 8), "c"), 8)
	require.Len(t, engine.SlotsOf(view.Owners("mails", 8), "a"), 4)
	require.Empty(t, engine.SlotsOf(view.Owners("mails", 8), "b"))
}

func TestTheSlotsOfAnAskAreThoseOfTheTopic(t *testing.T) {
	topic := engine.Topic{Slots: 4}
	for _, test := range []struct{ asked, want []int }{
		{nil, []int{0, 1, 2, 3}},
		{[]int{}, []int{}},
		{[]int{3, 0, 3}, []int{0, 3}},
		{[]int{4, 5, 6, 7}, []int{}},
		{[]int{-1, 1 << 16, 2}, []int{2}},
	} {
		given := slices.Clone(test.asked)
		require.Equal(t, test.want, topic.Asked(test.asked))
		require.Equal(t, given, test.asked, "the caller's slice stays")
	}
}

func TestAnAnswerIsNoTrouble(t *testing.T) {
	for _, answer := range []error{nil, engine.ErrFull, fmt.Errorf("shard 2 of 3: %w", engine.ErrNotFound), engine.ErrClosed} {
		require.False(t, engine.IsTrouble(answer), "%v", answer)
	}
	for _, trouble := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, fmt.Errorf("%w: %w", engine.ErrPartial, io.EOF)} {
		require.True(t, engine.IsTrouble(trouble), "%v", trouble)
	}
}
