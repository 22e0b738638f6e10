package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/latency"
)

// story is a made-up run: node 0 is killed at 100s, node 1 is ended in peace then, node 4 ends by
// itself, and node 2 and 3 go on. The lease is 10s.
type story struct{ ledger }

const death = 100 * time.Second

func newStory() *story {
	return &story{ledger{
		nodes:  []nodeEnd{{killed: true, at: death}, {drained: true, at: death}, {}, {}, {died: true, at: death}},
		online: map[sessionEpoch]bool{},
		end:    200 * time.Second,
	}}
}

// has puts a session on a node with an epoch, for a time.
func (s *story) has(session, node int32, epoch int64, from, to time.Duration) *story {
	s.registrations = append(s.registrations, registration{session: session, node: node, epoch: epoch, from: from, to: to})
	s.online[sessionEpoch{session, epoch}] = true
	return s
}

// as says how a session came to its last place.
func (s *story) as(kind kind) *story {
	s.registrations[len(s.registrations)-1].kind = kind
	return s
}

// until says when the run ends.
func (s *story) until(end time.Duration) *story {
	s.end = end
	return s
}

// died says when node 4 has ended.
func (s *story) died(at time.Duration) *story {
	s.nodes[4].at = at
	return s
}

// unsaid has no node tell of an online session.
func (s *story) unsaid() *story {
	clear(s.online)
	return s
}

// slow says how long an answer has taken.
func (s *story) slow(answer time.Duration) *story {
	s.longest = answer
	return s
}

// told has an end be told.
func (s *story) told(session int32, epoch int64, at time.Duration) *story {
	s.offlines = append(s.offlines, offline{sessionEpoch{session, epoch}, at, "expired"})
	return s
}

// because says why the last told session has ended.
func (s *story) because(reason string) *story {
	s.offlines[len(s.offlines)-1].reason = reason
	return s
}

func (s *story) judge(t *testing.T) *findings {
	t.Helper()
	cfg, err := parse("-nodes 4 -kill 1 -lease 10s")
	require.NoError(t, err)
	return s.ledger.judge(cfg)
}

func TestTheLedgerSeesEachFault(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		story *story
		want  findings
	}{
		"a session that is there":                 {newStory().has(1, 2, 5, s, 0), findings{}},
		"a session that is not told to be online": {newStory().has(1, 2, 5, s, 0).unsaid(), findings{unsaid: 1}},
		"a session that is not told yet":          {newStory().has(1, 2, 5, 199*s, 0).unsaid(), findings{}},
		"a session whose node is killed right after": {
			newStory().has(1, 0, 5, death-s, death).unsaid().told(1, 5, death+9*s),
			findings{told: 1, orphans: 1, stayed: 1, detection: []time.Duration{9 * s}},
		},
		"told while its connection is open": {
			newStory().has(1, 2, 5, s, 0).told(1, 5, 50*s), findings{told: 1, wrongLive: 1},
		},
		"told long before its connection is closed": {
			newStory().has(1, 2, 5, s, 60*s).told(1, 5, 50*s), findings{told: 1, wrongLive: 1},
		},
		"told before its connection is seen to be closed": {
			newStory().has(1, 2, 5, s, 60*s).told(1, 5, 60*s-80*time.Millisecond), findings{told: 1},
		},
		"closed, and not told": {newStory().has(1, 2, 5, s, 60*s), findings{silentLost: 1}},
		"closed at the end":    {newStory().has(1, 2, 5, s, 199*s), findings{}},
		"closed, and told":     {newStory().has(1, 2, 5, s, 60*s).told(1, 5, 61*s), findings{told: 1}},
		"told with an epoch of nobody": {
			newStory().has(1, 2, 5, s, 0).told(1, 6, 50*s), findings{told: 1, unknown: 1},
		},
		"told of a session of nobody": {newStory().told(7, 6, 50*s), findings{told: 1, unknown: 1}},
		"told when connections are closed, after the end": {
			newStory().has(1, 2, 5, s, 0).told(1, 5, 201*s), findings{},
		},
		"a lower epoch later": {
			newStory().has(1, 2, 5, s, 60*s).has(1, 3, 4, 61*s, 0).told(1, 5, 60500*time.Millisecond), findings{told: 1, backwards: 1},
		},
		"the same epoch later": {
			newStory().has(1, 2, 5, s, 60*s).has(1, 3, 5, 61*s, 0).told(1, 5, 60500*time.Millisecond), findings{told: 1, backwards: 1},
		},

		"of the killed node, told in time": {
			newStory().has(1, 0, 5, s, death).told(1, 5, death+9*s),
			findings{told: 1, orphans: 1, stayed: 1, detection: []time.Duration{9 * s}},
		},
		"of the killed node, whose client does not know yet": {
			newStory().has(1, 0, 5, s, 0).told(1, 5, death+9*s),
			findings{told: 1, orphans: 1, stayed: 1, detection: []time.Duration{9 * s}},
		},
		"of the killed node, told twice": {
			newStory().has(1, 0, 5, s, death).told(1, 5, death+9*s).told(1, 5, death+15*s),
			findings{told: 2, repeated: 1, orphans: 1, stayed: 1, detection: []time.Duration{9 * s}},
		},
		"of the killed node, told before it was": {
			newStory().has(1, 0, 5, s, death).told(1, 5, death-2*s),
			findings{told: 1, wrongLive: 1, orphans: 1, stayed: 1, early: 1, detection: []time.Duration{-2 * s}},
		},
		"of the killed node, told too early": {
			newStory().has(1, 0, 5, s, death).told(1, 5, death+s),
			findings{told: 1, orphans: 1, stayed: 1, early: 1, detection: []time.Duration{s}},
		},
		"of the killed node, told too early, and back": {
			newStory().has(1, 0, 5, s, death).told(1, 5, death+s).has(1, 2, 6, death+3*s, 0),
			findings{told: 1, orphans: 1, back: 1, backAfterEnd: 1, early: 1, detection: []time.Duration{s}},
		},
		"of the killed node, told early, but its lease was extended late": {
			newStory().has(1, 0, 5, s, death).told(1, 5, death+4*s),
			findings{told: 1, orphans: 1, stayed: 1, detection: []time.Duration{4 * s}},
		},
		"of the killed node, closed by it right before": {
			newStory().has(1, 0, 5, s, death+s/10).told(1, 5, death+s/2).because("closed"),
			findings{told: 1, orphans: 1, stayed: 1, detection: []time.Duration{s / 2}},
		},
		"of the killed node, told late": {
			newStory().has(1, 0, 5, s, death).told(1, 5, death+12*s),
			findings{told: 1, orphans: 1, stayed: 1, late: 1, detection: []time.Duration{12 * s}},
		},
		"of the killed node, told too late": {
			newStory().has(1, 0, 5, s, death).told(1, 5, death+30*s),
			findings{told: 1, orphans: 1, stayed: 1, late: 1, tardy: 1, detection: []time.Duration{30 * s}},
		},
		"of the killed node, lost": {
			newStory().has(1, 0, 5, s, death), findings{orphans: 1, stayed: 1, lost: 1},
		},
		"of the killed node, and gone before": {
			newStory().has(1, 0, 5, s, 50*s).told(1, 5, 50*s), findings{told: 1},
		},
		"back in time": {
			newStory().has(1, 0, 5, s, death).has(1, 2, 6, death+5*s, 0).as(moved), findings{orphans: 1, back: 1},
		},
		"back when it was over, and not told yet": {
			newStory().has(1, 0, 5, s, death).has(1, 2, 6, death+8*s, 0), findings{orphans: 1, back: 1},
		},
		"back in time, and nobody knows it": {
			newStory().has(1, 0, 5, s, death).has(1, 2, 6, death+5*s, 0), findings{orphans: 1, back: 1, forgotten: 1},
		},
		"back when it was told": {
			newStory().has(1, 0, 5, s, death).told(1, 5, death+8*s).has(1, 2, 6, death+9*s, 0),
			findings{told: 1, orphans: 1, back: 1, backAfterEnd: 1, detection: []time.Duration{8 * s}},
		},
		"back at the same time": {
			newStory().has(1, 0, 5, s, death).has(1, 2, 6, death+8*s, 0).told(1, 5, death+8*s+20*time.Millisecond),
			findings{told: 1, crossed: 1, crossing: 20 * time.Millisecond, orphans: 1, back: 1},
		},
		"back, and told with its old epoch right after": {
			newStory().has(1, 0, 5, s, death).has(1, 2, 6, death+5*s, 0).told(1, 5, death+5*s+200*time.Millisecond),
			findings{told: 1, wrongBack: 1, orphans: 1, back: 1},
		},
		"back, and told with its old epoch right after, on a slow machine": {
			newStory().slow(150*time.Millisecond).has(1, 0, 5, s, death).has(1, 2, 6, death+5*s, 0).told(1, 5, death+5*s+200*time.Millisecond),
			findings{told: 1, crossed: 1, crossing: 200 * time.Millisecond, orphans: 1, back: 1},
		},
		"back, and told with its old epoch": {
			newStory().has(1, 0, 5, s, death).has(1, 2, 6, death+5*s, 0).told(1, 5, death+9*s),
			findings{told: 1, wrongBack: 1, orphans: 1, back: 1},
		},
		"back, and told with its new epoch": {
			newStory().has(1, 0, 5, s, death).has(1, 2, 6, death+5*s, 0).as(moved).told(1, 6, death+9*s),
			findings{told: 1, wrongBack: 1, orphans: 1, back: 1},
		},
		"back so late that it must have been told": {
			newStory().has(1, 0, 5, s, death).has(1, 2, 6, death+20*s, 0).as(moved), findings{orphans: 1, back: 1, lost: 1},
		},

		"of the node that ends by itself, told": {
			newStory().has(1, 4, 5, s, death-100*time.Millisecond).told(1, 5, death+9*s), findings{told: 1},
		},
		"of the node that ends by itself, lost": {
			newStory().has(1, 4, 5, s, death-100*time.Millisecond), findings{abandoned: 1},
		},
		"of the node that ends by itself, when it is too early to tell": {
			newStory().until(death+10*s).has(1, 4, 5, s, death), findings{},
		},
		"closed before its node ends by itself": {
			newStory().has(1, 4, 5, s, 50*s), findings{silentLost: 1},
		},

		"drained, and elsewhere": {
			newStory().has(1, 1, 5, s, death).has(1, 2, 6, death+s, 0).as(resumed), findings{resumed: 1},
		},
		"drained, and elsewhere before it was left": {
			newStory().has(1, 1, 5, s, death).has(1, 2, 6, death+s, 0).as(moved), findings{moved: 1},
		},
		"drained, and elsewhere, where nobody knows it": {
			newStory().has(1, 1, 5, s, death).has(1, 2, 6, death+s, 0), findings{anew: 1, forgotten: 1},
		},
		"drained, and elsewhere when the time for that is over": {
			newStory().has(1, 1, 5, s, death).has(1, 2, 6, death+11*s, 0), findings{anew: 1},
		},
		"drained, and nowhere": {newStory().has(1, 1, 5, s, death), findings{}},
		"drained, and told": {
			newStory().has(1, 1, 5, s, death).told(1, 5, death+s/2).has(1, 2, 6, death+s, 0), findings{told: 1, wrongDrained: 1, anew: 1, forgotten: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.story.judge(t)
			f.reasons, f.gap, f.tolerance = nil, latency.Histogram{}, 0
			require.Equal(t, c.want, *f)
		})
	}
}

// Some cross by chance, but not all.
func TestHowManyEndsMayCross(t *testing.T) {
	s := newStory()
	for i := range int32(1000) {
		back := death + time.Duration(i)*10*time.Millisecond
		s.has(i, 0, 5, time.Second, death).has(i, 2, 6, back, 0).told(i, 5, back+50*time.Millisecond)
	}
	f := s.judge(t)
	require.Equal(t, 1000, f.crossed)
	cfg, err := parse("-nodes 4 -kill 1 -lease 10s")
	require.NoError(t, err)
	require.Equal(t, 25, f.crossable(cfg), "one in a hundred, twice, and five")

	require.Contains(t, New(cfg).report(&s.ledger, tally{}).Faults(), "1000 sessions were told to be offline right after they were back, of which 25 may be by chance")
}

// If a client was gone before it was welcome, only its node knows of that epoch.
func TestAnEpochOfWhichOnlyItsNodeKnowsMayBeTold(t *testing.T) {
	s := newStory().has(1, 2, 7, 60*time.Second, 0).told(1, 5, 50*time.Second)
	s.online[sessionEpoch{1, 5}] = true
	f := s.judge(t)
	require.Zero(t, f.unknown)
	require.Equal(t, 1, f.unwelcome)
}

// A node registers a session again if Redis has lost it. The client does not know of that epoch.
func TestAnEpochOfWhichOnlyItsNodeKnowsMustNotBeToldOfAnOpenConnection(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		story *story // epoch 7 is told at 50s
		live  int
	}{
		"open":                               {newStory().has(1, 2, 5, s, 0), 1},
		"open until long after":              {newStory().has(1, 2, 5, s, 60*s), 1},
		"just closed":                        {newStory().has(1, 2, 5, s, 50*s), 0},
		"seen to be closed only then":        {newStory().has(1, 2, 5, s, 50*s+80*time.Millisecond), 0},
		"another one, with a higher epoch":   {newStory().has(1, 2, 5, s, 40*s).has(1, 2, 9, 45*s, 0), 0},
		"another one, and only later":        {newStory().has(1, 2, 5, s, 40*s).has(1, 2, 6, 51*s, 0), 0},
		"of a node that has ended by itself": {newStory().died(40*s).has(1, 4, 5, s, 0), 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.story.told(1, 7, 50*s).online[sessionEpoch{1, 7}] = true
			f := c.story.judge(t)
			require.Equal(t, c.live, f.wrongLive)
			require.Equal(t, 1-c.live, f.unwelcome)
			require.Zero(t, f.unknown)
		})
	}
}

// If a call of a node had no answer from Redis, only Redis knows.
func TestAnEpochOfARegistrationThatWasNotAnsweredMayBeTold(t *testing.T) {
	s := newStory().has(1, 2, 7, 60*time.Second, 0).told(1, 5, 50*time.Second).told(2, 5, 50*time.Second)
	s.failed = map[int32]bool{1: true}
	f := s.judge(t)
	require.Equal(t, 1, f.unknown)
	require.Equal(t, 1, f.unwelcome)
}

func TestEndsToldTooEarlyFailTheRun(t *testing.T) {
	cfg, err := parse("-nodes 4 -kill 1 -lease 10s")
	require.NoError(t, err)
	s := newStory().has(1, 0, 5, time.Second, death).told(1, 5, death+time.Second)
	require.Equal(t, []string{"1 sessions of killed nodes were told to be offline before their leases can have ended"}, New(cfg).report(&s.ledger, tally{}).Faults())
}

func TestTheLedgerMeasuresDetectionAndGaps(t *testing.T) {
	s := newStory()
	for i := range int32(100) {
		s.has(i, 0, 5, time.Second, death).told(i, 5, death+time.Duration(i+1)*100*time.Millisecond)
		s.has(100+i, 1, 5, time.Second, death).has(100+i, 2, 6, death+time.Duration(i)*10*time.Millisecond, 0)
	}
	f := s.judge(t)
	require.Equal(t, 100*time.Millisecond, latency.At(f.detection, 0))
	require.Equal(t, 5*time.Second, latency.At(f.detection, 0.5))
	require.Equal(t, 9900*time.Millisecond, latency.At(f.detection, 0.99))
	require.Equal(t, 10*time.Second, latency.At(f.detection, 1))
	require.InEpsilon(t, 500, f.gap.Summary().P50, 0.05)
	require.Equal(t, map[string]int{"expired": 100}, f.reasons)
}
