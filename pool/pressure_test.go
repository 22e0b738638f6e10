package pool

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		got := c.p.Reduction(c.used)
		require.InDelta(t, c.want, got, 1e-12, "%+v at %v", c.p, c.used)
		if c.want == 0 || c.want == 1 {
			require.Equal(t, c.want, got, "%+v at %v: exactly", c.p, c.used)
		}
	}
}

func TestReductionNeverShrinksAsUseGrows(t *testing.T) {
	p, err := Pressure{}.withDefaults()
	require.NoError(t, err)
	last := 0.0
	for i := range 10_001 {
		got := p.Reduction(float64(i) / 10_000)
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
		got, err := c.p.withDefaults()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	got, err := Pressure{Of: func() float64 { return 0.25 }}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, 0.25, got.Of(), "it is kept")
}

func TestPressureErrorsNameBothBounds(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		p    Pressure
		want string
	}{
		{Pressure{Low: -0.5}, "Pressure.Low -0.5 and Pressure.High 0.95"},
		{Pressure{Low: 0.99}, "Pressure.Low 0.99 and Pressure.High 0.95"},
		{Pressure{High: 0.5}, "Pressure.Low 0.85 and Pressure.High 0.5"},
		{Pressure{High: -1}, "Pressure.Low 0.85 and Pressure.High -1"},
		{Pressure{High: 1.5}, "Pressure.Low 0.85 and Pressure.High 1.5"},
		{Pressure{Low: 0.9, High: 0.9}, "Pressure.Low 0.9 and Pressure.High 0.9"},
		{Pressure{Low: 0.9, High: 0.8}, "Pressure.Low 0.9 and Pressure.High 0.8"},
		{Pressure{Low: nan}, "Pressure.Low NaN and Pressure.High 0.95"},
		{Pressure{High: nan}, "Pressure.Low 0.85 and Pressure.High NaN"},
		{Pressure{High: math.Inf(1)}, "Pressure.Low 0.85 and Pressure.High +Inf"},
		{Pressure{Low: math.Inf(-1)}, "Pressure.Low -Inf and Pressure.High 0.95"},
	} {
		got, err := c.p.withDefaults()
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, "pool: invalid argument: "+c.want+", must be 0 < Low < High <= 1")
		require.Zero(t, got)
	}
}
