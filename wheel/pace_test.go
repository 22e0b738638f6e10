package wheel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

func TestPace(t *testing.T) {
	type look struct {
		at, asleep, want, stalled time.Duration
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
		"a suspended machine: the clock stands still, and has a grace": {
			{at: 100 * ms, want: 100 * ms},
			{at: 200 * ms, asleep: time.Hour, want: 100 * ms, stalled: time.Hour},
			{at: 300 * ms, asleep: time.Hour, want: 100 * ms},
			{at: 1100 * ms, asleep: time.Hour, want: 100 * ms},
			{at: 1200 * ms, asleep: time.Hour, want: 100 * ms},
			{at: 1300 * ms, asleep: time.Hour, want: 200 * ms},
		},
		"suspended for no longer than slowness": {
			{at: 100 * ms, asleep: 900 * ms, want: 100 * ms},
			{at: 200 * ms, asleep: 1800 * ms, want: 200 * ms},
			{at: 300 * ms, asleep: 2701 * ms, want: 200 * ms, stalled: 901 * ms},
		},
		"suspended and slow, each too short to be a stall": {
			{at: 100 * ms, want: 100 * ms},
			{at: 700 * ms, asleep: 600 * ms, want: 100 * ms, stalled: 1100 * ms},
			{at: 1800 * ms, asleep: 600 * ms, want: 100 * ms, stalled: 1000 * ms},
		},
		"suspended and stopped": {
			{at: 2000 * ms, asleep: time.Hour, want: 0, stalled: time.Hour + 1900*ms},
			{at: 3100 * ms, asleep: time.Hour, want: 0, stalled: 1000 * ms},
		},
		"suspended before a look that follows at once": {
			{at: 100 * ms, want: 100 * ms},
			{at: 100*ms + 1, asleep: time.Hour, want: 100 * ms, stalled: time.Hour},
		},
		"suspended again in the grace": {
			{at: 100 * ms, asleep: time.Hour, want: 0, stalled: time.Hour},
			{at: 1000 * ms, asleep: time.Hour, want: 0},
			{at: 1100 * ms, asleep: 2 * time.Hour, want: 0, stalled: time.Hour},
			{at: 2000 * ms, asleep: 2 * time.Hour, want: 0},
			{at: 2200 * ms, asleep: 2 * time.Hour, want: 100 * ms},
		},
		"the two clocks are read one after the other": {
			{at: 100 * ms, asleep: 5 * time.Microsecond, want: 100 * ms},
			{at: 200 * ms, asleep: 2 * time.Microsecond, want: 200 * ms},
			{at: 300 * ms, asleep: 6 * time.Microsecond, want: 300 * ms},
		},
		"stopped between the readings of the two": {
			{at: 100 * ms, asleep: -time.Hour, want: 100 * ms},
			{at: 200 * ms, asleep: 0, want: 200 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pace{sleep: 100 * ms, stall: time.Second}
			for _, l := range looks {
				told := p.stalled
				got := p.look(l.at, l.asleep)
				stalled := p.stalled - told
				require.Equal(t, l.want, got, "at %v", l.at)
				require.Equal(t, l.stalled, stalled, "at %v", l.at)
				require.Equal(t, l.want, p.at(l.at))
			}
		})
	}
}

func TestPaceOfAMachineOnWhichEveryGapIsAStallGetsOn(t *testing.T) {
	p := pace{sleep: 100 * ms, stall: time.Second}
	for i := 1; i <= 100; i++ {
		told := p.stalled
		got := p.look(time.Duration(i)*2*time.Second, 0)
		stalled := p.stalled - told
		require.Equal(t, 1900*ms, stalled)
		require.Equal(t, time.Duration(max(0, i-maxRow))*100*ms, got)
	}
	// It has half a grace.
	got := p.look(200*time.Second+500*ms, 0)
	require.Equal(t, 9000*ms, got)
	got = p.look(201*time.Second, 0)
	require.Equal(t, 9500*ms, got)
	got = p.look(203*time.Second, 0)
	require.Equal(t, 9500*ms, got)
	// Then a second counts, and a new row begins.
	p.look(204*time.Second, 0)
	for i := range maxRow + 1 {
		got = p.look(204*time.Second+500*ms+time.Duration(i)*2*time.Second, 0)
		require.Equal(t, 10500*ms, got)
	}
}

// A row ends with a calm, and not with the little that counts behind each grace.
func TestPaceOfAProcessThatRunsOnlyBetweenStallsGetsOn(t *testing.T) {
	for _, runs := range []time.Duration{0, 500 * ms, 999 * ms, 1010 * ms, 1500 * ms, 1990 * ms, 2100 * ms, 5 * time.Second} {
		for _, stops := range []time.Duration{1010 * ms, 1500 * ms, time.Minute} {
			p := pace{sleep: 100 * ms, stall: time.Second}
			var now, got, ran time.Duration
			for p.stalls < 1000 {
				for left := runs; left > 0; left -= 10 * ms {
					now += min(left, 10*ms)
					ran += min(left, 10*ms)
					p.look(now, 0)
				}
				now += stops
				got = p.look(now, 0)
			}
			least := p.sleep
			if runs > p.stall {
				least = p.stall / 2
			}
			require.GreaterOrEqual(t, got, (1000-maxRow)*least-time.Second, "%v between stops of %v", runs, stops)
			require.LessOrEqual(t, got, ran+1000*p.sleep, "%v between stops of %v", runs, stops)
		}
	}
}

// A machine asleep whenever it can gets on too, and never faster than its clock.
func TestPaceOfAMachineThatIsSuspendedInEveryGapGetsOn(t *testing.T) {
	for _, gap := range []time.Duration{ms, 100 * ms, 150 * ms} {
		p := pace{sleep: 100 * ms, stall: time.Second}
		for i := 1; i <= 100; i++ {
			got := p.look(time.Duration(i)*gap, time.Duration(i)*time.Minute)
			require.Equal(t, time.Duration(max(0, i-maxRow))*min(gap, p.sleep), got)
		}
	}
}

// However long the row is, nothing counts at the end of a stall that follows a whole grace: the
// bytes that wait then are read first.
func TestPaceOfARowKillsNobodyAtTheEndOfAStall(t *testing.T) {
	p := pace{sleep: 500 * ms, stall: time.Second}
	var now, before time.Duration
	for range 100 {
		for range 140 { // 1.4 s
			now += 10 * ms
			before = p.look(now, 0)
		}
		now += 1100 * ms
		told := p.stalled
		after := p.look(now, 0)
		stalled := p.stalled - told
		require.NotZero(t, stalled)
		require.Equal(t, before, after)
		for range 49 {
			now += 10 * ms
			after = p.look(now, 0)
			require.Equal(t, before, after)
		}
	}
}

func TestPaceWithoutStalls(t *testing.T) {
	p := pace{sleep: 100 * ms, stall: -1}
	told := p.stalled
	got := p.look(time.Hour, time.Hour)
	stalled := p.stalled - told
	require.Equal(t, time.Hour, got)
	require.Zero(t, stalled)
}

// counted must agree with the difference of two results of look, at any moment and for any
// time in the past.
func TestPaceKnowsHowMuchOfThePastCounts(t *testing.T) {
	p := pace{sleep: 100 * ms, stall: time.Second}
	rnd := rand.New(rand.NewPCG(1, 1))
	type look struct{ at, wheel time.Duration }
	looks := []look{{}}
	now, asleep := time.Duration(0), time.Duration(0)
	for i := range 3000 {
		gap := time.Duration(rnd.IntN(100)) * ms
		if rnd.IntN(100) == 0 || i%500 < 30 && i%2 == 0 { // at times a long row
			gap = time.Duration(1001+rnd.IntN(5000)) * ms
		}
		if rnd.IntN(100) == 0 {
			asleep += time.Duration(rnd.IntN(5000)) * ms
		}
		now += gap
		wheel := p.look(now, asleep)
		looks = append(looks, look{now, wheel})
		unseen := now + time.Duration(rnd.IntN(3))*700*ms // also before the next look
		for range 5 {
			past := looks[rnd.IntN(len(looks))]
			got, want := p.counted(unseen, unseen-past.at), p.at(unseen)-past.wheel
			require.Equal(t, want, got, "of the time since %v, at %v", past.at, unseen)
		}
	}
	require.Greater(t, p.stalls, uint64(maxStalls/2))
	require.LessOrEqual(t, p.stalls, uint64(maxStalls), "it has forgotten none")
	require.Zero(t, p.counted(now+time.Hour, time.Minute), "in a stall that is not over")
}

// A peer falls silent for ever, and the process is stopped again and again. However often that is, each look finds the
// silence to be at least two thirds as long as it is, so it comes to an end, and never longer.
func TestPaceFindsTheEndOfASilenceThroughAnyNumberOfStalls(t *testing.T) {
	for name, runs := range map[string]func(i int) time.Duration{
		"for a second":      func(int) time.Duration { return time.Second },
		"hardly":            func(int) time.Duration { return 10 * ms },
		"longer and longer": func(i int) time.Duration { return time.Duration(i%1000) * 10 * ms },
		"now and then":      func(i int) time.Duration { return time.Duration(i%100/99) * time.Hour },
		"at random":         func(int) time.Duration { return time.Duration(rand.ExpFloat64() * float64(3*time.Second)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := pace{sleep: 100 * ms, stall: time.Second}
			type lastByte struct{ at, wheel time.Duration }
			var peers []lastByte // the last byte of each
			now := time.Duration(0)
			for i := range 2000 {
				now += 1100 * ms
				wheel := p.look(now, 0)
				for end := now + time.Second + runs(i); now < end; wheel = p.look(now, 0) {
					now = min(end, now+p.stall) // no stall
				}
				if i%50 == 0 {
					peers = append(peers, lastByte{now, wheel})
				}
				if i%10 == 0 {
					for _, b := range peers {
						got, want := p.counted(now, now-b.at), wheel-b.wheel
						require.LessOrEqual(t, got, want)
						require.GreaterOrEqual(t, got, want/3*2, "after %d stalls", i)
					}
				}
			}
		})
	}
}

// However long the process runs between stalls, no silence seems to be shorter than two thirds of it, or longer than it is.
func TestPaceFindsTwoThirdsOfASilenceAtLeast(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	families := map[string]func(i, n float64) float64{
		"even":             func(float64, float64) float64 { return 30 },
		"at random":        func(float64, float64) float64 { return 50 * rnd.Float64() },
		"growing":          func(i, n float64) float64 { return 50 * i / n },
		"growing sawtooth": func(i, _ float64) float64 { return math.Mod(i, 40) },
		"falling sawtooth": func(i, _ float64) float64 { return 40 - math.Mod(i, 40) },
		"falling suddenly": func(i, n float64) float64 { return 50 - 50*math.Floor(2*i/n) },
	}
	for _, total := range []float64{10, 15, 25, 50} {
		for _, power := range []float64{0.5, 1, 1.5, 2.5} {
			families[fmt.Sprintf("falling by %v, power %v", total, power)] = func(i, n float64) float64 {
				return total * math.Pow(1-i/n, power)
			}
		}
	}
	worst, hardest := 0.0, []float64(nil)
	for name, family := range families {
		for _, n := range []int{120, 400} {
			runs := make([]float64, n)
			for i := range runs {
				runs[i] = family(float64(i), float64(n))
			}
			part := hidden(t, runs)
			require.LessOrEqual(t, part, 1.0/3, "%s, %d stalls", name, n)
			if part > worst {
				worst, hardest = part, runs
			}
		}
	}
	for range 60 { // climbs
		runs := slices.Clone(hardest)
		for range 1 + rnd.IntN(8) {
			from := rnd.IntN(len(runs))
			by := 6 * (rnd.Float64() - 0.5)
			for i := range runs[from:min(len(runs), from+1+rnd.IntN(50))] {
				runs[from+i] = min(max(0, runs[from+i]+by), 51)
			}
		}
		part := hidden(t, runs)
		require.LessOrEqual(t, part, 1.0/3)
		if part >= worst {
			worst, hardest = part, runs
		}
	}
}

func FuzzPace(f *testing.F) {
	f.Add([]byte("a"))
	f.Fuzz(func(t *testing.T, in []byte) {
		runs := make([]float64, min(len(in), 4*maxStalls))
		for i := range runs {
			runs[i] = float64(in[i]) / 5
		}
		require.LessOrEqual(t, hidden(t, runs), 1.0/3)
	})
}

// hidden has a process run for 2^runs[i] ns before each stall, and returns the greatest part of a silence that counted
// doesn't find.
func hidden(t *testing.T, runs []float64) (worst float64) {
	const day = 24 * time.Hour
	p := pace{sleep: 1, stall: day}
	type lastByte struct{ at, wheel time.Duration }
	var peers []lastByte // the last byte of each
	now := time.Duration(0)
	look := func() {
		wheel := p.look(now, 0)
		peers = append(peers, lastByte{now, wheel})
	}
	for i, run := range runs {
		for end := now + day + time.Duration(math.Exp2(run)); now < end; p.look(now, 0) {
			now = min(end, now+day) // no stall
		}
		look()
		now += day + 1
		look()
		now += time.Hour // in the grace
		look()
		if i%100 != 0 && i != len(runs)-1 {
			continue
		}
		for _, b := range peers {
			got, want := p.counted(now, now-b.at), p.at(now)-b.wheel
			if got > want {
				t.Fatalf("a silence of %v is found to be %v, after %d stalls", want, got, i+1)
			}
			if want > 0 {
				worst = max(worst, float64(want-got)/float64(want))
			}
		}
	}
	return worst
}

// The hand has slept through some ticks when a timer is rearmed.
func TestRearmWhileTheHandIsLate(t *testing.T) {
	for _, late := range []time.Duration{0, 99 * ms, 100 * ms, 250 * ms, 300 * ms} {
		for _, d := range []time.Duration{0, 1, 100 * ms, 420 * ms, math.MaxInt64} {
			now := time.Duration(0)
			w, err := newDue(Config{}, func(*TimerOf[int], int) {})
			require.NoError(t, err)
			w.workers.most = 0
			w.since = func() time.Duration { return now }
			timer, err := w.Add(1, 100*ms)
			require.NoError(t, err)
			for range 2 {
				now += 100 * ms
				w.advance()
			}
			require.True(t, timer.IsDue())
			now += late
			require.True(t, timer.Rearm(sum(w.Time(0), d)))
			wait := w.clock.span(timer.dueTick(timer.word.Load())) - now
			if d == math.MaxInt64 {
				require.Greater(t, wait, 1000*time.Hour)
				continue
			}
			require.GreaterOrEqual(t, wait, d)
			require.LessOrEqual(t, wait, d+200*ms)
			if late < 100*ms {
				require.LessOrEqual(t, wait, d+100*ms)
			}
		}
	}
}
