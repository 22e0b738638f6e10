package sched

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const unlimited = math.MaxInt

func nothing() uint64 { return 0 }

// register is an integer of the actors.
type register struct {
	Var
	v uint64
}

func (r *register) load() uint64 {
	r.Read()
	if Traced() {
		r.Trace("is %d", r.v)
	}
	return r.v
}

func (r *register) store(v uint64) {
	r.Write()
	r.v = v
	if Traced() {
		r.Trace("becomes %d", v)
	}
}

func TestEveryInterleavingIsRun(t *testing.T) {
	orders := map[string]bool{}
	var order string
	s := &search{preemptions: unlimited}
	r := s.explore(func() []func() {
		order = ""
		var a register
		write := func(name string) func() {
			return func() {
				for range 3 {
					a.Write()
					order += name
				}
			}
		}
		return []func(){write("a"), write("b")}
	}, func() error {
		orders[order] = true
		return nil
	})
	require.NoError(t, r.Failure)
	require.Equal(t, 20, r.Runs, "6 over 3")
	require.Len(t, orders, 20)
}

func TestPreemptionsAreBounded(t *testing.T) {
	for preemptions, want := range []int{2, 4, 6} { // aabb and bbaa; abba and baab; abab and baba
		var a register
		s := &search{preemptions: preemptions}
		r := s.explore(func() []func() {
			write := func() {
				a.Write()
				a.Write()
			}
			return []func(){write, write}
		}, func() error { return nil })
		require.Equal(t, want, r.Runs, "%d preemptions", preemptions)
	}
}

// lostUpdate is two actors. Each adds one, in two steps.
func lostUpdate(with func(add func())) (setup func() []func(), check func() error) {
	var a *register
	setup = func() []func() {
		a = new(register)
		a.Name("a")
		add := func() {
			Begin(nothing)
			with(func() { a.store(a.load() + 1) })
			End(nothing)
		}
		return []func(){add, add}
	}
	return setup, func() error {
		if a.v != 2 {
			return errors.New("an update is lost")
		}
		return nil
	}
}

func TestALostUpdateIsFoundAndToldStepByStep(t *testing.T) {
	setup, check := lostUpdate(func(add func()) { add() })
	require.NoError(t, Explore(0, setup, check).Failure, "it needs a preemption")
	r := Explore(1, setup, check)
	require.EqualError(t, r.Failure, "an update is lost")
	require.Equal(t, `actor 1
    a is 0
actor 2
    a is 0
    a becomes 1
actor 1
    a becomes 1
`, r.Schedule)
}

func TestALockIsExclusive(t *testing.T) {
	var m *Mutex
	setup, check := lostUpdate(func(add func()) {
		m.Lock()
		defer m.Unlock()
		add()
	})
	r := Explore(unlimited, func() []func() {
		m = new(Mutex)
		return setup()
	}, check)
	require.NoError(t, r.Failure)
	require.Positive(t, r.Runs)
}

func TestReadersShareALock(t *testing.T) {
	var readers, most, beside int
	r := Explore(unlimited, func() []func() {
		m, a := new(Mutex), new(register)
		readers = 0
		reader := func() {
			m.RLock()
			defer m.RUnlock()
			readers++
			most = max(most, readers)
			a.load()
			readers--
		}
		writer := func() {
			m.Lock()
			defer m.Unlock()
			beside += readers
			a.store(1)
			beside += readers
		}
		return []func(){reader, reader, writer}
	}, func() error { return nil })
	require.NoError(t, r.Failure)
	require.Equal(t, 2, most)
	require.Zero(t, beside, "readers beside the writer")
}

func TestAGuardedWriteWithoutTheLockIsFound(t *testing.T) {
	r := Explore(0, func() []func() {
		var m Mutex
		a := new(register)
		a.GuardedBy(&m)
		return []func(){func() { m.Lock(); a.store(1); m.Unlock() }, func() { a.store(2) }}
	}, func() error { return nil })
	require.ErrorContains(t, r.Failure, "without its lock")
}

func TestTryLockFailsWhileALockIsHeld(t *testing.T) {
	both, failed := 0, 0
	r := Explore(unlimited, func() []func() {
		m, a, inside := new(Mutex), new(register), 0
		try := func() {
			if !m.TryLock() {
				failed++
				return
			}
			inside++
			both = max(both, inside)
			a.load()
			inside--
			m.Unlock()
		}
		return []func(){try, try}
	}, func() error { return nil })
	require.NoError(t, r.Failure)
	require.Equal(t, 1, both)
	require.Positive(t, failed)
}

func TestADeadlockIsFound(t *testing.T) {
	r := Explore(1, func() []func() {
		var a, b Mutex
		lock := func(first, second *Mutex) func() {
			return func() {
				first.Lock()
				defer first.Unlock()
				second.Lock()
				defer second.Unlock()
			}
		}
		return []func(){lock(&a, &b), lock(&b, &a)}
	}, func() error { return nil })
	require.ErrorContains(t, r.Failure, "deadlock")
}

func TestAPanicIsFound(t *testing.T) {
	r := Explore(0, func() []func() {
		var a register
		return []func(){func() { a.load(); panic("oops") }, func() { a.load(); a.load() }}
	}, func() error { return nil })
	require.ErrorContains(t, r.Failure, "oops")
}

// seeds is how many random programs are tried.
func seeds() uint64 {
	if testmain.Race {
		return 6
	}
	return 20
}

// A cut run ends like another run. So all outcomes are seen without it.
func TestCutRunsAddNothing(t *testing.T) {
	for seed := range seeds() {
		for _, preemptions := range []int{1, 2, unlimited} {
			p := program{seed: seed, history: true}
			want, all := p.outcomes(t, &search{preemptions: preemptions})
			got, few := p.outcomes(t, &search{preemptions: preemptions, seen: map[uint64]int{}})
			require.Equal(t, want, got, "seed %d, %d preemptions", seed, preemptions)
			require.LessOrEqual(t, few, all)
		}
	}
}

// A guarded read is in no race. So all outcomes are seen if it has no step. But a call may end
// earlier for that, which only makes the check of an order of the calls stricter.
func TestStepsOfGuardedReadsAddNothing(t *testing.T) {
	for seed := range seeds() {
		want, all := program{seed: seed}.outcomes(t, &search{preemptions: unlimited})
		got, few := program{seed: seed, guarded: true}.outcomes(t, &search{preemptions: unlimited})
		require.Equal(t, want, got, "seed %d", seed)
		require.LessOrEqual(t, few, all)
	}
}

// program is a few random operations.
type program struct {
	seed    uint64
	guarded bool // a register is
	history bool // the outcome includes which calls had ended at a begin
}

func (p program) outcomes(t *testing.T, s *search) (all map[string]bool, runs int) {
	all = map[string]bool{}
	var outcome func() string
	r := s.explore(func() (actors []func()) {
		actors, outcome = p.actors()
		return actors
	}, func() error {
		all[outcome()] = true
		return nil
	})
	require.NoError(t, r.Failure)
	return all, r.Runs
}

// actors makes two or three actors with a few operations on three registers and a lock. The
// outcome is all they have read, the end, and the order of their calls.
func (p program) actors() (actors []func(), outcome func() string) {
	rnd := rand.New(rand.NewPCG(p.seed, 1))
	var regs [3]register
	var plain uint64 // guarded by m
	var m Mutex
	if p.guarded {
		regs[2].GuardedBy(&m)
	}
	n := 2 + rnd.IntN(2)
	saw := make([][]uint64, n)
	var ended []string
	for i := range n {
		kinds := make([]int, 8/n-rnd.IntN(2))
		for k := range kinds {
			kinds[k] = rnd.IntN(18)
		}
		actors = append(actors, func() {
			note := func(v uint64) { saw[i] = append(saw[i], v) }
			for k, kind := range kinds {
				r := &regs[kind%3]
				if k == len(kinds)/2 {
					End(nothing)
					ended = append(ended, fmt.Sprint(i))
					Begin(nothing)
					if p.history {
						note(uint64(len(ended)))
					}
				}
				switch kind / 3 {
				case 0, 1:
					note(r.load())
				case 2:
					regs[kind%2].store(uint64(10*i + k))
				case 3:
					r := &regs[kind%2]
					old := regs[0].load()
					if r.Try(func() bool { return r.v == old }) {
						r.v = uint64(100*i + k)
					}
				default:
					m.Lock()
					note(plain)
					plain = uint64(1000*i + k)
					note(r.load())
					regs[2].store(uint64(10000*i + k))
					note(regs[2].load())
					m.Unlock()
				}
			}
		})
	}
	return actors, func() string { return fmt.Sprint(saw, regs[0].v, regs[1].v, regs[2].v, plain) }
}
