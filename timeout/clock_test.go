package timeout

import (
	"sync"
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
		w, d := &worker{}, &dispatcher{}
		w.topic = Topic{Name: "orders"}.WithDefaults()
		of := [2]*part{lookingAt(&w.leaser, w, cfg, now.Add(cfg.Poll+time.Hour)), lookingAt(&d.leaser, d, cfg, now.Add(cfg.Poll+time.Hour))}
		if ahead != 0 { // without an answer both are taken for equal
			batch := engine.Batch{Now: now.Round(0).Add(ahead)}
			w.endCall(of[0], engine.Ask{}, batch, nil, now)
			d.endCall(of[1], engine.Ask{Max: 1}, batch, nil, now)
			require.Equal(t, of[0].look, of[1].look)
		}
		w.expect(Key{}, due)
		d.expect(Key{}, due)
		for _, p := range of {
			require.NotEqual(t, p.look.Round(0), p.look)
			require.WithinDuration(t, now.Add(time.Second), p.look, time.Millisecond)
		}
	}

	// An outcome for a time, too.
	now := time.Now()
	w := &worker{}
	p := lookingAt(&w.leaser, w, cfg, now.Add(time.Hour))
	w.endCall(p, engine.Ask{Settle: []engine.Outcome{{As: Pending, Due: now.Round(0).Add(time.Second)}}},
		engine.Batch{Now: now.Round(0), Settled: []bool{true}}, nil, now)
	require.NotEqual(t, p.look.Round(0), p.look)
	require.WithinDuration(t, now.Add(time.Second), p.look, 0)
}

// lookingAt makes l look at a whole engine at that time, and returns that part.
func lookingAt(l *leaser, of consumer, cfg Config, at time.Time) *part {
	l.attach(&Center{cfg: cfg}, "orders", of, new(sync.WaitGroup))
	l.parts[0].look = at
	return l.parts[0]
}
