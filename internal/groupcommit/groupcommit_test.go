package groupcommit

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

var errClosed = errors.New("closed")

// slow is a committer for echoes. A batch takes five milliseconds, whatever its size.
func slow(sizes *[]int) *Committer[int, int] {
	return &Committer[int, int]{
		Do: func(asks []int) ([]int, error) {
			*sizes = append(*sizes, len(asks)) // one batch at a time
			time.Sleep(5 * time.Millisecond)
			return asks, nil
		},
		Fail:   func(_ int, err error) error { return err },
		Closed: errClosed,
	}
}

func TestEachCallerGetsItsOwnAnswer(t *testing.T) {
	const callers, calls = 64, 50
	var sizes []int
	c := slow(&sizes)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range calls {
				answer, err := c.Call(context.Background(), caller*calls+i)
				require.NoError(t, err)
				require.EqualValues(t, caller*calls+i, answer)
			}
		})
	}
	all.Wait()
	c.Close()
	sum := 0
	for _, size := range sizes {
		sum += size
	}
	require.Equal(t, callers*calls, sum)
}

// 64 callers call again at once. Without waiting for each other they go as one and as all others, in turns: 32 to a
// batch.
func BenchmarkCallersThatCallAgain(b *testing.B) {
	const callers = 64
	var sizes []int
	c := slow(&sizes)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range b.N {
				_, _ = c.Call(context.Background(), 1)
			}
		})
	}
	all.Wait()
	c.Close()
	b.ReportMetric(float64(callers*b.N)/float64(len(sizes)), "calls/batch")
}

// The next batch begins when each caller of the last one runs again: it may call again at once.
func TestABatchWaitsUntilTheCallersOfTheLastOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		c := slow(&sizes)
		var all sync.WaitGroup
		call := func() {
			_, err := c.Call(context.Background(), 1)
			require.NoError(t, err)
		}
		c.asleep.Add(1) // a caller without a processor
		call()
		all.Go(call)
		time.Sleep(time.Second)
		require.Equal(t, []int{1}, sizes)
		all.Go(call)
		synctest.Wait()
		c.asleep.Done()
		all.Wait()
		c.Close()
		require.Equal(t, []int{1, 2}, sizes)
	})
}

// A batch must not wait for missing calls for ever, even if no time passes while it waits.
func TestNobodyWaitsForThoseWhoDoNotCallAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		c := slow(&sizes)
		var all sync.WaitGroup
		for caller := range 64 {
			all.Go(func() {
				_, err := c.Call(context.Background(), caller)
				require.NoError(t, err)
			})
		}
		all.Wait()
		began := time.Now()
		_, err := c.Call(context.Background(), 1)
		require.NoError(t, err)
		require.Equal(t, 5*time.Millisecond, time.Since(began))
		c.Close()
	})
}

// After giving up, a caller must not get the answer of another one.
func TestACallThatWasGivenUpHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		c := slow(&sizes)
		var all sync.WaitGroup
		var gone, answered, abandoned atomic.Int64
		c.Abandon = func(ask, answer int) {
			require.Equal(t, ask, answer)
			abandoned.Add(1)
		}
		for caller := range 200 {
			all.Go(func() {
				for i := range 20 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(caller%4)*4*time.Millisecond)
					answer, err := c.Call(ctx, caller<<8|i)
					cancel()
					if errors.Is(err, context.DeadlineExceeded) {
						gone.Add(1)
						continue
					}
					require.NoError(t, err)
					require.EqualValues(t, caller<<8|i, answer)
					answered.Add(1)
				}
			})
		}
		all.Wait()
		c.Close()
		done := int64(0)
		for _, size := range sizes {
			done += int64(size)
		}
		require.Positive(t, abandoned.Load())
		require.Less(t, abandoned.Load(), gone.Load(), "of some the batch had not begun")
		require.Equal(t, done, answered.Load()+abandoned.Load())
		_, err := c.Call(context.Background(), 1)
		require.ErrorIs(t, err, errClosed)
	})
}

// It gives up while its answer comes. The next batch must not wait for it.
func TestACallGivenUpAtItsAnswerHoldsUpNoOther(t *testing.T) {
	giveUp := func() {}
	c := &Committer[int, int]{
		Do:     func(asks []int) ([]int, error) { return asks, nil },
		Fail:   func(_ int, err error) error { giveUp(); return err },
		Closed: errClosed,
	}
	for i := range 1000 {
		var ctx context.Context
		ctx, giveUp = context.WithCancel(context.Background())
		if answer, err := c.Call(ctx, i); err == nil {
			require.Equal(t, i, answer)
		}
		giveUp()
	}
	c.Close()
}

func TestACallThatIsGivenUpBeforeItsBatchIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		c := slow(&sizes)
		c.Abandon = func(int, int) { t.Error("it was done") }
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := c.Call(over, 1)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, sizes)
		var all sync.WaitGroup
		all.Go(func() { _, _ = c.Call(context.Background(), 1) })
		time.Sleep(time.Millisecond)
		for range 1000 { // while the first is under way
			all.Go(func() {
				hurry, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				_, err := c.Call(hurry, 2)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		all.Go(func() { _, _ = c.Call(context.Background(), 3) })
		all.Wait()
		c.Close()
		require.Equal(t, []int{1, 1}, sizes)
	})
}

// A whole batch of callers gives up while very many others wait behind.
func TestCallersThatGaveUpKeepNobodyBehindThemWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leave, all = size + 1, 4 * size
		begin := make(chan struct{})
		var done []int
		c := Committer[int, int]{
			Do:   func(asks []int) ([]int, error) { <-begin; done = append(done, asks...); return asks, nil },
			Fail: func(_ int, err error) error { return err },
		}
		ctx, giveUp := context.WithCancel(context.Background())
		var callers sync.WaitGroup
		call := func(ctx context.Context, i int) {
			callers.Go(func() { _, _ = c.Call(ctx, i) })
			synctest.Wait()
		}
		call(context.Background(), 0)
		for i := range all {
			if i < leave {
				call(ctx, -1)
			} else {
				call(context.Background(), i)
			}
		}
		giveUp()
		synctest.Wait()
		close(begin)
		callers.Wait()
		require.Len(t, done, 1+all-leave)
		require.NotContains(t, done, -1)
	})
}
