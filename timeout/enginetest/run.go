package enginetest

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Options describe the engine to Run. The zero value is useful.
type Options struct {
	// Second returns another engine on the same store, as another process would have it. It
	// then does half of the concurrent work. Nil means that there can be none.
	Second func(t *testing.T) engine.Engine

	// Open returns an engine on a store of its own, for the test of Close. If Open and Second
	// are both nil, Run leaves that test out.
	Open func(t *testing.T) engine.Engine

	// NoPeek is for an engine.Peeker with a part that can't peek: Peek must be ErrUnsupported.
	NoPeek bool

	// NoListen is for an engine.Waker without news of all topics, such as an index before an engine that is no Waker.
	// The test of ended leases is left out.
	NoListen bool

	// PartOf is for an engine of several parts, each with an order of its own: it returns the
	// part of a task. Nil means that there is one part.
	PartOf func(key engine.Key) int
}

// suite is the common state of the tests of one run.
type suite struct {
	engine engine.Engine
	second engine.Engine // or engine
	opts   Options

	mu   sync.Mutex
	dead map[string]int // numbers of deleted dead tasks, by topic
}

// atOnce is how many tests run at the same time: they wait more than they work.
const atOnce = 8

// Run tests the whole contract on an engine. The engine may have other topics, but no members.
// The tests of engine.Log, Parted, Peeker, Primary and Waker run if the engine implements them. Run does not
// close the engine.
func Run(t *testing.T, e engine.Engine, opts Options) {
	s := &suite{engine: e, second: e, opts: opts, dead: make(map[string]int)}
	if opts.Second != nil {
		s.second = opts.Second(t)
	}
	if s.opts.PartOf == nil {
		s.opts.PartOf = func(engine.Key) int { return 0 }
	}
	var waiting sync.WaitGroup
	running := make(chan struct{}, atOnce)
	for _, one := range s.tests() {
		running <- struct{}{}
		// t.Parallel would run no more tests at the same time than there are processors.
		waiting.Go(func() {
			defer func() { <-running }()
			t.Run(one.name, func(t *testing.T) { one.run(s.rig(t)) })
		})
	}
	waiting.Wait()
	if opts.Second != nil || opts.Open != nil {
		// It comes last: what an engine deletes while it is closed is counted by nobody.
		t.Run("Close", func(t *testing.T) { testClose(s.rig(t)) })
	}
}

type test struct {
	name string
	run  func(r *rig)
}

func (s *suite) tests() []test {
	tests := []test{ // the longest first
		{"RandomCallsAreAnsweredAsByTheModel", testModel},
		{"ConcurrentCallsAreLinearizable", testLinearizable},
		{"EachSetFiresExactlyOnce", testExactlyOnce},
		{"NothingIsEarly", testNeverEarly},
		{"Members", testMembers},
		{"Maintain", testMaintain},
		{"DeadLetters", testDeadLetters},
		{"Late", testLate},
		{"Leases", testLeases},
		{"LeasesDuringMaintenance", testLeasesDuringMaintenance},
		{"OneLease", testOneLease},
		{"ExpiredAmongOthers", testExpiredAmongOthers},
		{"Next", testNext},
		{"StatesKept", testStatesKept},
		{"StatesForgotten", testStatesForgotten},
		{"Tokens", testTokens},
		{"Attempts", testAttempts},
		{"NewRun", testNewRun},
		{"Every", testEvery},
		{"Record", testRecord},
		{"Batches", testBatches},
		{"Order", testOrder},
		{"Times", testTimes},
		{"Paused", testPaused},
		{"PausedUntil", testPausedUntil},
		{"ChangedIf", testChangedIf},
		{"List", testList},
		{"ListUnderChange", testListUnderChange},
		{"ListOfLargeTasks", testListLarge},
		{"ListWithoutPayloads", testListOmitPayload},
		{"Count", testCount},
		{"Topics", testTopics},
		{"Growing", testGrowing},
		{"Dropped", testDropped},
		{"Slots", testSlots},
		{"Pulls", testPulls},
		{"AnyBytes", testAnyBytes},
		{"Copies", testCopies},
		{"Context", testContext},
		{"ContextEnds", testContextEnds},
	}
	if engine.Logs(s.engine) {
		tests = append(tests, test{"Log", testLog}, test{"LogRetained", testLogRetained}, test{"LogNewRun", testLogNewRun}, test{"LogOfASet", testLogOfASet})
	}
	if _, ok := s.engine.(engine.Waker); ok {
		tests = append(tests, test{"Waker", testWaker})
		if !s.opts.NoListen {
			tests = append(tests, test{"WakerOfEndedLeases", testWakerEnded})
		}
	}
	if _, ok := s.engine.(engine.Parted); ok {
		tests = append(tests, test{"Parts", testParts})
	}
	if _, ok := s.engine.(engine.Peeker); ok {
		tests = append(tests, test{"Peek", testPeek})
	}
	if _, ok := s.engine.(engine.Primary); ok {
		tests = append(tests, test{"ScanBefore", testScanBefore}, test{"Claim", testClaim}, test{"ClaimedOnce", testClaimedOnce})
	}
	return tests
}

// unique returns a name that no other test has, nor an earlier run on the same store.
func unique(prefix string) string {
	return prefix + "-" + strconv.FormatUint(rand.Uint64(), 36)
}
