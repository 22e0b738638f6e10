package wheel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

func TestPace(t *testing.T) {
	type look struct {
		at, want, stalled time.Duration
	}
	for name, looks := range map[string][]look{
		"no stall": {
			{at: 100 * ms, want: 100 * ms},
			{at: 200 * ms, want: 200 * ms},
			{at: 1200 * ms, want: 1200 * ms}, // a second is still slowness
		},
		"a stall counts as a tick, and then time stands still for a second": {
			{at: 100 * ms, want: 100 * ms},
			{at: 60100 * ms, want: 200 * ms, stalled: 59900 * ms},
			{at: 60200 * ms, want: 200 * ms},
			{at: 61000 * ms, want: 200 * ms},
			{at: 61100 * ms, want: 200 * ms},
			{at: 61200 * ms, want: 300 * ms},
			{at: 61300 * ms, want: 400 * ms},
		},
		"a look that misses the end of the grace": {
			{at: 2000 * ms, want: 100 * ms, stalled: 1900 * ms},
			{at: 2900 * ms, want: 100 * ms},
			{at: 3150 * ms, want: 250 * ms},
		},
		"a machine on which every gap is a stall gets on": {
			{at: 2000 * ms, want: 100 * ms, stalled: 1900 * ms},
			{at: 4000 * ms, want: 200 * ms, stalled: 1900 * ms},
			{at: 6000 * ms, want: 300 * ms, stalled: 1900 * ms},
			{at: 8000 * ms, want: 400 * ms, stalled: 1900 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pace{tick: 100 * ms, stall: time.Second}
			for _, l := range looks {
				got, stalled := p.look(l.at)
				require.Equal(t, l.want, got, "at %v", l.at)
				require.Equal(t, l.stalled, stalled, "at %v", l.at)
				require.Equal(t, l.want, p.at(l.at))
			}
		})
	}
}

func TestPaceUntilCountsTheGrace(t *testing.T) {
	p := pace{tick: 100 * ms, stall: time.Second}
	p.look(100 * ms)
	require.Equal(t, 100*ms, p.until(200*ms, 100*ms))
	require.Equal(t, 60*ms, p.until(200*ms, 140*ms))
	p.look(60 * time.Second)
	require.Equal(t, 1100*ms, p.until(300*ms, 60*time.Second))
	p.look(60500 * ms)
	require.Equal(t, 600*ms, p.until(300*ms, 60500*ms))
	p.look(61500 * ms)
	require.Negative(t, p.until(300*ms, 61500*ms))
}

func TestPaceWithoutStalls(t *testing.T) {
	p := pace{tick: 100 * ms, stall: -1}
	got, stalled := p.look(time.Hour)
	require.Equal(t, time.Hour, got)
	require.Zero(t, stalled)
}
