package linear_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/internal/linear"
)

// A register: reads return the last value written. A negative input reads.
func register(state, input, answer int) (bool, int) {
	if input < 0 {
		return answer == state, state
	}
	return true, input
}

type call = linear.Call[int, int]

const steps = 1000

func TestCheck(t *testing.T) {
	write := func(begin, end int64, value int) call { return call{Begin: begin, End: end, Input: value} }
	read := func(begin, end int64, value int) call {
		return call{Begin: begin, End: end, Input: -1, Answer: value}
	}
	for name, test := range map[string]struct {
		calls []call
		want  linear.Result
	}{
		"nothing":                         {nil, linear.Explained},
		"the first value":                 {[]call{read(1, 2, 0)}, linear.Explained},
		"a value of nobody":               {[]call{write(1, 2, 1), read(3, 4, 2)}, linear.Impossible},
		"one after the other":             {[]call{write(1, 2, 1), read(3, 4, 1)}, linear.Explained},
		"the value before":                {[]call{write(1, 2, 1), read(3, 4, 0)}, linear.Impossible},
		"at the same time, before":        {[]call{write(1, 4, 1), read(2, 3, 0)}, linear.Explained},
		"at the same time, after":         {[]call{write(1, 4, 1), read(2, 3, 1)}, linear.Explained},
		"a read that goes back":           {[]call{write(1, 6, 1), read(2, 3, 1), read(4, 5, 0)}, linear.Impossible},
		"two writes in the other order":   {[]call{write(1, 4, 1), write(2, 3, 2), read(5, 6, 1)}, linear.Explained},
		"two readers that see two orders": {[]call{write(1, 9, 1), write(2, 8, 2), read(10, 11, 1), read(12, 13, 2)}, linear.Impossible},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, linear.Check(0, register, test.calls, steps))
		})
	}
}

func TestCheckGivesUp(t *testing.T) {
	var calls []call
	for i := range 12 {
		calls = append(calls, call{Begin: int64(i), End: 100, Input: i})
	}
	calls = append(calls, call{Begin: 200, End: 201, Input: -1, Answer: 99})
	require.Equal(t, linear.Unknown, linear.Check(0, register, calls, steps))
	require.Equal(t, linear.Impossible, linear.Check(0, register, calls, 1_000_000))
}
