package timeout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The clock of a node may be stepped while it sleeps until a task is due. Only instants with a monotonic
// reading, as those of time.Now, pass over that. Round(0) takes the reading away.
func TestALookDoesNotDependOnStepsOfTheNodesClock(t *testing.T) {
	cfg := Config{Node: "a"}.withDefaults()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} { // the engine's clock
		now := time.Now()
		due := now.Round(0).Add(ahead + time.Second)
		w := &worker{c: &Center{cfg: cfg}, looks: looks{look: now.Add(cfg.Poll + time.Hour), bell: make(chan struct{}, 1)}, topic: Topic{Name: "orders"}.WithDefaults()}
		d := &desk{c: w.c, looks: looks{look: w.look, bell: make(chan struct{}, 1)}}
		if ahead != 0 { // without an answer both are taken for equal
			batch := engine.Batch{Now: now.Round(0).Add(ahead)}
			w.take(engine.Ask{}, batch, nil, now, now)
			d.take(engine.Ask{Max: 1}, batch, now)
			require.Equal(t, w.look, d.look)
		}
		w.expect(due)
		d.expect(due)
		for _, look := range []time.Time{w.look, d.look} {
			require.NotEqual(t, look.Round(0), look)
			require.WithinDuration(t, now.Add(time.Second), look, time.Millisecond)
		}
	}

	// An outcome for a time, too.
	now := time.Now()
	w := &worker{c: &Center{cfg: cfg}, looks: looks{look: now.Add(time.Hour), bell: make(chan struct{}, 1)}}
	w.take(engine.Ask{Settle: []engine.Outcome{{As: Pending, Due: now.Round(0).Add(time.Second)}}},
		engine.Batch{Now: now.Round(0), Settled: []bool{true}}, nil, now, now)
	require.NotEqual(t, w.look.Round(0), w.look)
	require.WithinDuration(t, now.Add(time.Second), w.look, 0)
}
