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
		"a stall does not count, nor the second after it": {
			{at: 100 * ms, want: 100 * ms},
			{at: 60150 * ms, want: 100 * ms, stalled: 59950 * ms},
			{at: 60250 * ms, want: 100 * ms},
			{at: 61050 * ms, want: 100 * ms},
			{at: 61150 * ms, want: 100 * ms},
			{at: 61250 * ms, want: 200 * ms},
			{at: 61350 * ms, want: 300 * ms},
		},
		"a look that misses the end of the grace": {
			{at: 2000 * ms, want: 0, stalled: 1900 * ms},
			{at: 2900 * ms, want: 0},
			{at: 3150 * ms, want: 150 * ms},
		},
		"a stall in a grace has a grace of its own": {
			{at: 100 * ms, want: 100 * ms},
			{at: 60100 * ms, want: 100 * ms, stalled: 59900 * ms},
			{at: 60400 * ms, want: 100 * ms},
			{at: 99900 * ms, want: 100 * ms, stalled: 39400 * ms},
			{at: 100800 * ms, want: 100 * ms},
			{at: 100900 * ms, want: 100 * ms},
			{at: 101000 * ms, want: 200 * ms},
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

func TestPaceOfAMachineOnWhichEveryGapIsAStallGetsOn(t *testing.T) {
	p := pace{tick: 100 * ms, stall: time.Second}
	for i := 1; i <= 100; i++ {
		got, stalled := p.look(time.Duration(i) * 2 * time.Second)
		require.Equal(t, 1900*ms, stalled)
		require.Equal(t, time.Duration(max(0, i-maxRow))*100*ms, got)
	}
	// Until there is a whole grace.
	p.look(201 * time.Second)
	got, _ := p.look(203 * time.Second)
	require.Equal(t, 9100*ms, got)
}

func TestPaceWithoutStalls(t *testing.T) {
	p := pace{tick: 100 * ms, stall: -1}
	got, stalled := p.look(time.Hour)
	require.Equal(t, time.Hour, got)
	require.Zero(t, stalled)
}
