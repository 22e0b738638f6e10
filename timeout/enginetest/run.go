package enginetest

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Options are what Run can be told of an engine. The zero value is useful.
type Options struct {
	// Second returns another engine on the same store, as another process would have it: half
	// of what is done at the same time is done by such a one then. Nil means that there can
	// be none.
	Second func(t *testing.T) timeout.Engine

	// Open returns an engine on a store of its own. Nil means that nothing is tested which
	// needs one: where there is no Second either, Close.
	Open func(t *testing.T) timeout.Engine

	// Place is for an engine of several parts, each of which has an order of its own: it returns
	// the part that a task is in. Nil means that there is one.
	Place func(key timeout.Key) int
}

// suite is what the tests of one run have in common.
type suite struct {
	engine timeout.Engine
	second timeout.Engine // or engine
	opts   Options

	mu   sync.Mutex
	dead map[string]int // how many dead tasks were deleted, by topic
}

// atOnce is how many tests run at the same time: they wait more than they work.
const atOnce = 8

// Run asks an engine, which may have other topics than those of the suite and no members, for
// all that the contract says. Tests of timeout.Log, Truth and Waker are run where the engine
// is one. The engine is not closed.
func Run(t *testing.T, engine timeout.Engine, opts Options) {
	s := &suite{engine: engine, second: engine, opts: opts, dead: make(map[string]int)}
	if opts.Second != nil {
		s.second = opts.Second(t)
	}
	if s.opts.Place == nil {
		s.opts.Place = func(timeout.Key) int { return 0 }
	}
	var waiting sync.WaitGroup
	running := make(chan struct{}, atOnce)
	for _, one := range s.tests() {
		running <- struct{}{}
		// Not t.Parallel: that runs no more tests at the same time than there are processors.
		waiting.Go(func() {
			defer func() { <-running }()
			t.Run(one.name, func(t *testing.T) { one.run(s.rig(t)) })
		})
	}
	waiting.Wait()
}

type test struct {
	name string
	run  func(r *rig)
}

func (s *suite) tests() []test {
	tests := []test{ // those that take longest come first
		{"RandomCallsAreAnsweredAsByTheModel", testModel},
		{"ConcurrentCallsAreLinearizable", testLinearizable},
		{"EachSetFiresExactlyOnce", testExactlyOnce},
		{"NothingIsEarly", testNeverEarly},
		{"Members", testMembers},
		{"Upkeep", testUpkeep},
		{"DeadLetters", testDeadLetters},
		{"Late", testLate},
		{"Leases", testLeases},
		{"LeasesDuringUpkeep", testLeasesDuringUpkeep},
		{"Next", testNext},
		{"StatesKept", testStatesKept},
		{"StatesForgotten", testStatesForgotten},
		{"Tokens", testTokens},
		{"Attempts", testAttempts},
		{"Batches", testBatches},
		{"Order", testOrder},
		{"Times", testTimes},
		{"Paused", testPaused},
		{"List", testList},
		{"ListUnderChange", testListUnderChange},
		{"ListOfLargeTasks", testListLarge},
		{"Count", testCount},
		{"Topics", testTopics},
		{"Growing", testGrowing},
		{"Dropped", testDropped},
		{"Slots", testSlots},
		{"Fence", testFence},
		{"AnyBytes", testAnyBytes},
		{"Context", testContext},
	}
	if s.opts.Second != nil || s.opts.Open != nil {
		tests = append(tests, test{"Close", testClose})
	}
	if _, ok := s.engine.(timeout.Log); ok {
		tests = append(tests, test{"Log", testLog}, test{"LogRetained", testLogRetained})
	}
	if _, ok := s.engine.(timeout.Waker); ok {
		tests = append(tests, test{"Waker", testWaker})
	}
	if _, ok := s.engine.(timeout.Truth); ok {
		tests = append(tests, test{"Upcoming", testUpcoming}, test{"Claim", testClaim}, test{"ClaimedOnce", testClaimedOnce})
	}
	return tests
}

// unique returns a name that no other test has, nor an earlier run on the same store.
func unique(prefix string) string {
	return prefix + "-" + strconv.FormatUint(rand.Uint64(), 36)
}
