package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/latency"
)

func TestBucketsFollowEachOther(t *testing.T) {
	last := -1
	for us := int64(0); us < 1<<17; us++ {
		b := bucketOf(us)
		require.True(t, b == last || b == last+1, us)
		require.InDelta(t, us, middleOf(b), math.Max(0.5, float64(us)/perOctave/2+0.5), us)
		last = b
	}
	require.Less(t, bucketOf(longestWait.Microseconds()), spreadBuckets)
	require.Less(t, bucketOf(1<<32-1), spreadBuckets)
}

func TestQuantilesAreRightToAThirtieth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var s spread
	var all []float64
	for range 20_000 {
		d := time.Duration(math.Exp(rnd.Float64()*16) * float64(time.Microsecond))
		s.record(d)
		all = append(all, float64(d.Microseconds())/1000)
	}
	slices.Sort(all)
	var sum sum
	sum.add(&s)
	q := sum.quantiles()
	require.InEpsilon(t, all[9_999], q.p50, 1.0/30)
	require.InEpsilon(t, all[19_799], q.p99, 1.0/30)
	require.Equal(t, all[19_999], q.max)
}

func TestQuantilesOfFewAndOfExtremes(t *testing.T) {
	require.True(t, math.IsNaN(new(sum).quantiles().p50), "there is none")
	for in, want := range map[time.Duration]float64{
		-time.Second: 0, 0: 0, time.Microsecond: 0.001, 1700 * time.Microsecond: 1.7,
		math.MaxInt64: latency.Milliseconds(longestWait),
	} {
		var s spread
		s.record(in)
		var sum sum
		sum.add(&s)
		q := sum.quantiles()
		require.Equal(t, want, q.max, in)
		require.LessOrEqual(t, q.p99, q.max)
		require.InDelta(t, want, q.p50, want/30)
	}
}

func TestMoreTimeMeansLongerIntervalsNotMore(t *testing.T) {
	for _, d := range []time.Duration{0, time.Second, time.Minute, 75 * time.Second, 76 * time.Second, time.Hour, 24 * time.Hour, longest} {
		t.Run(d.String(), func(t *testing.T) {
			s := newSeries(d)
			require.LessOrEqual(t, d, s.width*someBins)
			for _, end := range []time.Duration{0, 1, s.width - 1, s.width, d, 3 * d, 1000 * d} {
				if end < 0 || end > longest {
					continue
				}
				points := (&history{series: s, end: end}).points()
				require.NotEmpty(t, points)
				require.LessOrEqual(t, len(points), maxPoints)
				last := time.Duration(0)
				for _, p := range points {
					require.Equal(t, last, p.from)
					require.Greater(t, p.to, p.from)
					last = p.to
				}
				require.Equal(t, max(end, 1), last)
			}
		})
	}
}

func TestWhatComesTooLateIsInTheLastInterval(t *testing.T) {
	s := newSeries(0)
	s.count(sent, -time.Second)
	s.count(sent, 1000*time.Hour)
	require.EqualValues(t, 1, s.bins[0].Load().events[sent].Load())
	require.EqualValues(t, 1, s.bins[maxBins-1].Load().events[sent].Load())
	var n int64
	for _, p := range (&history{series: s, end: 1000 * time.Hour}).points() {
		n += p.events[sent]
	}
	require.EqualValues(t, 2, n)
}

func TestManyWorkersCountIntoOneSeries(t *testing.T) {
	s := newSeries(0)
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			for n := range 10_000 {
				at := time.Duration(n) * time.Millisecond
				s.count(sent, at)
				s.record(lag, at, time.Duration(i*n)*time.Microsecond)
			}
		})
	}
	workers.Wait()
	var n, waited int64
	for i := range 40 {
		b := s.bins[i].Load()
		n += b.events[sent].Load()
		var sum sum
		sum.add(&b.waits[lag])
		waited += sum.count
		require.EqualValues(t, 7*(i*250+249), sum.largest)
	}
	require.EqualValues(t, 80_000, n)
	require.EqualValues(t, 80_000, waited)
}

func TestWithoutAPageNothingIsCounted(t *testing.T) {
	var s *series
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.count(sent, time.Second)
		s.record(lag, time.Second, time.Second)
	}))
}

// What a heartbeat and its answer cost the load generator besides, with a page.
func BenchmarkSeries(b *testing.B) {
	for _, s := range []*series{nil, newSeries(time.Minute)} {
		b.Run(fmt.Sprintf("page=%t", s != nil), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				at := time.Duration(0)
				for pb.Next() {
					at += 10 * time.Microsecond
					s.count(sent, at%time.Minute)
					s.record(lag, at%time.Minute, at%time.Millisecond)
					s.count(answered, at%time.Minute)
					s.record(roundTrip, at%time.Minute, at%time.Millisecond)
				}
			})
		})
	}
}
