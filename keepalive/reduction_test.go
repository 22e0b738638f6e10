package keepalive

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// filled returns a Pressure with its defaults.
func filled(p Pressure) Pressure {
	p.setDefaults(time.Minute, time.Second)
	return p
}

func TestReductionGrowsFromLowToHigh(t *testing.T) {
	half := Pressure{Low: 0.5, High: 1}
	for _, c := range []struct {
		p          Pressure
		used, want float64
	}{
		{Pressure{}, 0, 0},
		{Pressure{}, 0.85, 0},
		{Pressure{}, 0.875, 0.25},
		{Pressure{}, 0.9, 0.5},
		{Pressure{}, 0.925, 0.75},
		{Pressure{}, 0.95, 1},
		{Pressure{}, 1, 1},
		{Pressure{Low: 0.9}, 0.925, 0.5},
		{Pressure{High: 0.9}, 0.875, 0.5},
		{half, 0.5, 0},
		{half, math.Nextafter(0.5, 1), math.Nextafter(0.5, 1)*2 - 1},
		{half, 0.75, 0.5},
		{half, 1, 1},
		{Pressure{Low: 0.5, High: math.Nextafter(0.5, 1)}, 0.5, 0},
		{Pressure{Low: 0.5, High: math.Nextafter(0.5, 1)}, math.Nextafter(0.5, 1), 1},

		{half, math.NaN(), 0},
		{half, -1, 0},
		{half, math.Inf(-1), 0},
		{half, 1.5, 1},
		{half, math.Inf(1), 1},
	} {
		got := filled(c.p).reduction(c.used)
		require.InDelta(t, c.want, got, 1e-12, "%+v at %v", c.p, c.used)
		if c.want == 0 || c.want == 1 {
			require.Equal(t, c.want, got, "%+v at %v: exactly", c.p, c.used)
		}
	}
}

func TestReductionNeverShrinksAsUseGrows(t *testing.T) {
	p := filled(Pressure{})
	last := 0.0
	for i := range 10_001 {
		got := p.reduction(float64(i) / 10_000)
		require.GreaterOrEqual(t, got, last)
		require.LessOrEqual(t, got, 1.0)
		last = got
	}
	require.Equal(t, 1.0, last)
}

func TestPressureHasTheBoundsOfEnvoyUnlessToldOthers(t *testing.T) {
	for _, c := range []struct{ p, want Pressure }{
		{Pressure{}, Pressure{Low: 0.85, High: 0.95}},
		{Pressure{Low: 0.9}, Pressure{Low: 0.9, High: 0.95}},
		{Pressure{High: 0.9}, Pressure{Low: 0.85, High: 0.9}},
		{Pressure{Low: 1e-300, High: 1}, Pressure{Low: 1e-300, High: 1}},
	} {
		got := filled(c.p)
		require.Equal(t, c.want, got)
		require.NoError(t, got.check(Config{Timeout: time.Minute, Tick: time.Second}))
	}
	got := filled(Pressure{Used: func() float64 { return 0.25 }})
	require.Equal(t, 0.25, got.Used(), "it is kept")
}

func TestPressureErrorsNameBothBounds(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		p    Pressure
		want string
	}{
		{Pressure{Low: -0.5}, "Room.Pressure.Low -0.5 and Room.Pressure.High 0.95"},
		{Pressure{Low: 0.99}, "Room.Pressure.Low 0.99 and Room.Pressure.High 0.95"},
		{Pressure{High: 0.5}, "Room.Pressure.Low 0.85 and Room.Pressure.High 0.5"},
		{Pressure{High: -1}, "Room.Pressure.Low 0.85 and Room.Pressure.High -1"},
		{Pressure{High: 1.5}, "Room.Pressure.Low 0.85 and Room.Pressure.High 1.5"},
		{Pressure{Low: 0.9, High: 0.9}, "Room.Pressure.Low 0.9 and Room.Pressure.High 0.9"},
		{Pressure{Low: 0.9, High: 0.8}, "Room.Pressure.Low 0.9 and Room.Pressure.High 0.8"},
		{Pressure{Low: nan}, "Room.Pressure.Low NaN and Room.Pressure.High 0.95"},
		{Pressure{High: nan}, "Room.Pressure.Low 0.85 and Room.Pressure.High NaN"},
		{Pressure{High: math.Inf(1)}, "Room.Pressure.Low 0.85 and Room.Pressure.High +Inf"},
		{Pressure{Low: math.Inf(-1)}, "Room.Pressure.Low -Inf and Room.Pressure.High 0.95"},
	} {
		err := filled(c.p).check(Config{Timeout: time.Minute, Tick: time.Second})
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, "keepalive: invalid argument: "+c.want+", must be 0 < Low < High <= 1")
	}
}
