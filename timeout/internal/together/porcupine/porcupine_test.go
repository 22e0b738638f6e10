// Package porcupine compares package linear with porcupine, a checker of other people.
package porcupine

import (
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/internal/linear"
)

type input struct {
	verb  string // get, add, swap
	value int
}

// next is a small counter: swap answers with the value before.
func next(state int, in input, answer int) (bool, int) {
	switch in.verb {
	case "get":
		return answer == state, state
	case "add":
		return true, (state + in.value) % 4
	}
	return answer == state, in.value
}

var model = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, in, answer any) (bool, any) {
		ok, after := next(state.(int), in.(input), answer.(int))
		return ok, after
	},
}

// history is a right one by some clients, and in half of the cases with a wrong answer.
func history(random *rand.Rand) (calls []linear.Call[input, int]) {
	state, now := 0, int64(0)
	wrong := random.IntN(2) == 0
	free := make([]int64, 1+random.IntN(4)) // the end of each client's last call
	for range 1 + random.IntN(20) {
		client := random.IntN(len(free))
		in := input{[]string{"get", "add", "swap"}[random.IntN(3)], random.IntN(4)}
		answer := state
		_, state = next(state, in, answer)
		if wrong && random.IntN(8) == 0 {
			answer = random.IntN(4)
		}
		now += 10
		begin := max(free[client]+1, now-random.Int64N(30))
		end := max(begin, now) + random.Int64N(30)
		free[client] = end
		now = max(now, begin)
		calls = append(calls, linear.Call[input, int]{Begin: 2 * begin, End: 2*end + 1, Input: in, Answer: answer})
	}
	return calls
}

func TestBothFindTheSame(t *testing.T) {
	found := map[linear.Result]int{}
	for seed := range uint64(20_000) {
		calls := history(rand.New(rand.NewPCG(seed, 0)))
		var operations []porcupine.Operation
		for i, c := range calls {
			operations = append(operations, porcupine.Operation{ClientId: i, Input: c.Input, Call: c.Begin, Output: c.Answer, Return: c.End})
		}
		want := linear.Impossible
		if porcupine.CheckOperations(model, operations) {
			want = linear.Explained
		}
		got := linear.Check(0, next, calls, 10_000_000)
		require.Equal(t, want, got, "seed %d: %+v", seed, calls)
		found[got]++
	}
	require.Greater(t, found[linear.Impossible], 1000)
	require.Greater(t, found[linear.Explained], 1000)
}
