package enginetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Batches makes n tasks for a benchmark, in batches of size. IDs have 17 bytes and payloads 64.
func Batches(topic string, n, size int, due time.Time) [][]engine.Task {
	payload := make([]byte, 64)
	batches := make([][]engine.Task, 0, n/size+1)
	for from := 0; from < n; from += size {
		batch := make([]engine.Task, min(size, n-from))
		for i := range batch {
			batch[i] = engine.Task{Topic: topic, ID: fmt.Sprintf("task-%012d", from+i), Payload: payload, Due: due}
		}
		batches = append(batches, batch)
	}
	return batches
}

// SetBatches sets batches with the given number of concurrent callers.
func SetBatches(tb testing.TB, e engine.Engine, batches [][]engine.Task, callers int) {
	tb.Helper()
	var next atomic.Int64
	crowd(tb, callers, func() error {
		for i := next.Add(1) - 1; int(i) < len(batches); i = next.Add(1) - 1 {
			if _, err := e.Set(context.Background(), batches[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Fill sets n due tasks.
func Fill(tb testing.TB, e engine.Engine, topic string, n int) {
	tb.Helper()
	SetBatches(tb, e, Batches(topic, n, 10_000, time.Unix(1, 0)), 1)
}

// Drain leases tasks and settles them with the next call until nothing is due. It uses the
// given number of workers, each with at most most tasks in a call. It returns the number of
// settled tasks.
func Drain(tb testing.TB, e engine.Engine, topic string, workers, most int) int {
	tb.Helper()
	var done atomic.Int64
	crowd(tb, workers, func() error { return drain(e, topic, most, &done) })
	return int(done.Load())
}

func drain(e engine.Engine, topic string, most int, done *atomic.Int64) error {
	ask := engine.Ask{Topic: topic, Node: "node-1", Max: most, Lease: time.Minute}
	for {
		batch, err := e.Lease(context.Background(), ask)
		if err != nil {
			return err
		}
		for _, settled := range batch.Settled {
			if settled {
				done.Add(1)
			}
		}
		if len(batch.Leased) == 0 {
			return nil
		}
		ask.Settle = ask.Settle[:0]
		for _, leased := range batch.Leased {
			ask.Settle = append(ask.Settle, engine.Outcome{Token: leased.Token, As: engine.Done})
		}
	}
}

func crowd(tb testing.TB, callers int, do func() error) {
	tb.Helper()
	var all errgroup.Group
	for range callers {
		all.Go(do)
	}
	require.NoError(tb, all.Wait())
}
