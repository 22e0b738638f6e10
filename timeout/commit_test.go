package timeout

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slow is what a committer does in these tests: five milliseconds for any number of calls.
func slow(sizes *[]int) func(context.Context, []int) ([]Answer, error) {
	return func(_ context.Context, asks []int) ([]Answer, error) {
		*sizes = append(*sizes, len(asks)) // one batch at a time
		time.Sleep(5 * time.Millisecond)
		answers := make([]Answer, len(asks))
		for i, ask := range asks {
			answers[i].Version = int64(ask)
		}
		return answers, nil
	}
}

func TestThoseWhoAreAnsweredTogetherCallTogetherAgain(t *testing.T) {
	const callers, calls = 64, 50
	var sizes []int
	c := committer[int]{do: slow(&sizes)}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range calls {
				answer, err := c.call(context.Background(), caller*calls+i)
				require.NoError(t, err)
				require.EqualValues(t, caller*calls+i, answer.Version)
			}
		})
	}
	all.Wait()
	c.close()
	// Without waiting for each other they go as one and as all others, in turns: two batches
	// for each call.
	require.Less(t, len(sizes), calls*9/5, "sizes %v", sizes)
}

// A batch that waits for calls which don't come must go nevertheless, also where no time goes
// by while it waits.
func TestNobodyWaitsForThoseWhoDoNotCallAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		c := committer[int]{do: slow(&sizes)}
		var all sync.WaitGroup
		for caller := range 64 {
			all.Go(func() {
				_, err := c.call(context.Background(), caller)
				require.NoError(t, err)
			})
		}
		all.Wait()
		began := time.Now()
		_, err := c.call(context.Background(), 1)
		require.NoError(t, err)
		require.Equal(t, 5*time.Millisecond, time.Since(began))
		c.close()
	})
}

// Who has given up must not be given the answer of somebody else.
func TestACallThatWasGivenUpHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		c := committer[int]{do: slow(&sizes)}
		var all sync.WaitGroup
		var gone atomic.Int64
		for caller := range 200 {
			all.Go(func() {
				for i := range 20 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(caller%4)*4*time.Millisecond)
					answer, err := c.call(ctx, caller<<8|i)
					cancel()
					if errors.Is(err, context.DeadlineExceeded) {
						gone.Add(1)
						continue
					}
					require.NoError(t, err)
					require.EqualValues(t, caller<<8|i, answer.Version)
				}
			})
		}
		all.Wait()
		c.close()
		require.Positive(t, gone.Load())
		_, err := c.call(context.Background(), 1)
		require.ErrorIs(t, err, ErrClosed)
	})
}
