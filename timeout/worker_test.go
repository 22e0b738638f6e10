package timeout

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// If there is nothing to ask for, a rate is no reason to look again.
func TestARateWakesNobodyWhereNothingCanRun(t *testing.T) {
	cfg := Config{Node: "a"}.withDefaults()
	limit := engine.DefaultConcurrency
	full := make([]*attempt, limit)
	for name, w := range map[string]*worker{
		"paused":    {leaser: leaser{topic: Topic{Paused: true}}, places: limit},
		"no slots":  {ownership: ownership{slots: []int{}}, places: limit},
		"no places": {},
		"full":      {queue: full, places: limit},
	} {
		w.attach(&Center{cfg: cfg}, name, w, new(sync.WaitGroup))
		w.limit, w.limiter = limit, rate.NewLimiter(1000, 100)
		w.topic.Rate = 1000
		w.topic = w.topic.WithDefaults()
		_, _, wait := w.plan(time.Now())
		require.Equal(t, cfg.Poll, wait, name)
	}
}

func TestAHandlerHasAnHourUnlessItsTopicSaysOtherwise(t *testing.T) {
	for want, topic := range map[time.Duration]Topic{
		time.Hour:       {},
		2 * time.Hour:   {Lease: 2 * time.Hour},
		time.Minute:     {Lease: 2 * time.Hour, Timeout: time.Minute},
		100 * time.Hour: {Timeout: 100 * time.Hour},
		0:               {Timeout: -1},
	} {
		topic.Name = "orders"
		require.NoError(t, topic.Check())
		require.Equal(t, want, timeLimit(topic))
		require.Equal(t, want, timeLimit(topic.WithDefaults()))
	}
}

func TestANodeHasANameOnAnyMachine(t *testing.T) {
	require.Equal(t, "k_ln-ä_", printable("k\xf6ln-ä\x00"))
	require.NoError(t, Config{Node: printable("k\xf6ln\x00")}.Validate())
	require.ErrorIs(t, Config{Node: "k\xf6ln"}.Validate(), ErrArgument)
}

// A look for late tasks of other nodes settles, too, and says nothing of the worker's own slots.
func TestARetrySettledWithARescueIsNotForgotten(t *testing.T) {
	now := time.Now()
	w := &worker{held: make(map[*attempt]struct{})}
	p := lookingAt(&w.leaser, w, Config{}, now.Add(time.Minute))
	outcomes := []engine.Outcome{{As: Done}, {As: Pending, After: 2 * time.Second}, {As: Pending, Due: now.Add(time.Hour)}}
	w.endCall(p, engine.Ask{Max: 8, OverdueBy: time.Second, Settle: outcomes}, engine.Batch{Now: now, Settled: []bool{true, true, true}}, nil, now)
	require.Equal(t, now.Add(2*time.Second), p.look)
}

// A node that rescues a large backlog, and always has more to rescue, serves its own slots as often.
func TestRescuesTakeTurnsWithTheOwnSlots(t *testing.T) {
	topic := Topic{Name: "orders", Lease: time.Second}.WithDefaults()
	w := &worker{
		leaser: leaser{topic: topic}, places: topic.Concurrency, limit: topic.Concurrency,
		ownership: ownership{slots: []int{0, 1}}, held: make(map[*attempt]struct{}),
	}
	p := lookingAt(&w.leaser, w, Config{}.withDefaults(), time.Time{})
	var late []bool
	for range 4 {
		now := time.Now()
		p.rescue, p.outcomes = now, []engine.Outcome{{As: Done}} // the last rescue had as many as it asked for
		of, ask, wait := w.plan(now)
		require.Zero(t, wait)
		require.Same(t, p, of)
		require.Len(t, ask.Settle, 1)
		late = append(late, ask.OverdueBy > 0)
		p.asked, p.calls = 0, 0
	}
	require.Equal(t, []bool{true, false, true, false}, late)
}
