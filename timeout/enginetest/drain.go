package enginetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Batches makes n tasks for a benchmark, so many in each batch: ids have 17 bytes and payloads
// 64.
func Batches(topic string, n, size int, due time.Time) [][]timeout.Task {
	payload := make([]byte, 64)
	batches := make([][]timeout.Task, 0, n/size+1)
	for from := 0; from < n; from += size {
		batch := make([]timeout.Task, min(size, n-from))
		for i := range batch {
			batch[i] = timeout.Task{Topic: topic, ID: fmt.Sprintf("task-%012d", from+i), Payload: payload, Due: due}
		}
		batches = append(batches, batch)
	}
	return batches
}

// SetBatches sets batches, so many at the same time.
func SetBatches(tb testing.TB, engine timeout.Engine, batches [][]timeout.Task, callers int) {
	tb.Helper()
	var next atomic.Int64
	crowd(tb, callers, func() error {
		for i := next.Add(1) - 1; int(i) < len(batches); i = next.Add(1) - 1 {
			if _, err := engine.Set(context.Background(), batches[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Fill sets n tasks that are due.
func Fill(tb testing.TB, engine timeout.Engine, topic string, n int) {
	tb.Helper()
	SetBatches(tb, engine, Batches(topic, n, 10_000, time.Unix(1, 0)), 1)
}

// Drain leases tasks and settles them with the next call, with so many workers and at most that
// many in a call, until nothing is due. It returns how many were settled.
func Drain(tb testing.TB, engine timeout.Engine, topic string, workers, most int) int {
	tb.Helper()
	var done atomic.Int64
	crowd(tb, workers, func() error { return drain(engine, topic, most, &done) })
	return int(done.Load())
}

func drain(engine timeout.Engine, topic string, most int, done *atomic.Int64) error {
	ask := timeout.Ask{Topic: topic, Node: "node-1", Max: most, Lease: time.Minute}
	for {
		batch, err := engine.Expire(context.Background(), ask)
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
			ask.Settle = append(ask.Settle, timeout.Outcome{Token: leased.Token, As: timeout.Done})
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
