package plot

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTicksAreRound(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		unit     Unit
		want     []string
	}{
		{0, 27.3, Elapsed, []string{"0 s", "10 s", "20 s"}},
		{0, 3.2, Elapsed, []string{"0 s", "1 s", "2 s", "3 s"}},
		{0, 0.9, Elapsed, []string{"0 s", "0.2 s", "0.4 s", "0.6 s", "0.8 s"}},
		{0, 100, Elapsed, []string{"0 s", "30 s", "1m", "1m30s"}},
		{0, 9000, Elapsed, []string{"0 s", "30m", "1h", "1h30m", "2h", "2h30m"}},
		{-12, 103, Milliseconds, []string{"0 ms", "50 ms", "100 ms"}},
		{0, 10_000, Number, []string{"0", "2000", "4000", "6000", "8000", "10k"}},
		{0, 1_000_000, Number, []string{"0", "200k", "400k", "600k", "800k", "1M"}},
		{0, 15.5e6, Bytes, []string{"0 B", "5 MB", "10 MB", "15 MB"}},
		{5, 5, Number, []string{"5", "5.2", "5.4", "5.6", "5.8", "6"}},
	} {
		var got []string
		for _, tick := range linear(c.from, c.to, c.unit).ticks {
			got = append(got, c.unit.Write(tick))
		}
		require.Equal(t, c.want, got)
	}
}

func TestLogarithmicTicks(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		min, max float64
		want     []string
	}{
		{0.06, 80, 0.05, 100, []string{"100 µs", "1 ms", "10 ms", "100 ms"}},
		{0.3, 0.9, 0.2, 1, []string{"200 µs", "500 µs", "1 ms"}},
		{1, 1, 1, 10, []string{"1 ms", "2 ms", "5 ms", "10 ms"}},
		{0.001, 60_000, 0.001, 100_000, []string{"1 µs", "100 µs", "10 ms", "1 s", "1.67 min"}},
	} {
		s := logarithmic(c.from, c.to)
		require.InEpsilon(t, c.min, s.min, 1e-9)
		require.InEpsilon(t, c.max, s.max, 1e-9)
		var got []string
		for _, tick := range s.ticks {
			got = append(got, writeMilliseconds(tick))
		}
		require.Equal(t, c.want, got)
	}
}

func TestPlacesOnAnAxis(t *testing.T) {
	s := linear(0, 10, Number)
	for v, want := range map[float64]float64{-1: 0, 0: 0, 2.5: 0.25, 10: 1, 11: 1, math.Inf(1): 1} {
		require.Equal(t, want, s.at(v), v)
	}
	s = logarithmic(1, 100)
	for v, want := range map[float64]float64{-1: 0, 0: 0, 1: 0, 10: 0.5, 100: 1, 1000: 1} {
		require.InDelta(t, want, s.at(v), 1e-9, v)
	}
}

func TestUnits(t *testing.T) {
	for want, got := range map[string]string{
		"0": Number.Write(0), "0.027": Number.Write(0.02699), "1.66": Number.Write(1.66), "9999": Number.Write(9999), "98.5k": Number.Write(98_492),
		"0 ms": Milliseconds.Write(0), "65 µs": Milliseconds.Write(0.065), "102 ms": Milliseconds.Write(101.9), "2.5 s": Milliseconds.Write(2500),
		"-480 ms": Milliseconds.Write(-480), "2 min": Milliseconds.Write(120_000),
		"645 B": Bytes.Write(645), "15.5 MB": Bytes.Write(15.5e6), "1.2 GB": Bytes.Write(1.2e9), "7.8 kB": Bytes.Write(7801),
		"59.8 s": Elapsed.Write(59.75), "1m": Elapsed.Write(60), "1m5s": Elapsed.Write(65), "2h3m": Elapsed.Write(7425),
	} {
		require.Equal(t, want, got)
	}
}
