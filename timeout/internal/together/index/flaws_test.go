package index_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// The tests here are about flaws of a table with something quick in front of it. With these
// flaws, tasks are lost or late. Each flaw has one check. A small program with the flaw must fail
// it, and package index must pass it.

// front is a table with an index in front of it.
type front interface {
	set(ctx context.Context, id string) error
	// take leases tasks as a worker, and returns their ids.
	take(ctx context.Context) ([]string, error)
}

// own is package index as a front.
type own struct{ engine.Engine }

func (o own) set(ctx context.Context, id string) error {
	_, err := o.Set(ctx, []engine.Task{{Topic: "orders", ID: id}})
	return err
}

func (o own) take(ctx context.Context) ([]string, error) {
	batch, err := o.Lease(ctx, engine.Ask{Topic: "orders", Node: "worker", Max: 10, Lease: time.Minute})
	return ids(batch.Leased), err
}

func ids(leased []engine.Leased) []string {
	var ids []string
	for _, one := range leased {
		ids = append(ids, one.ID)
	}
	return ids
}

// withOrders returns a table with a topic.
func withOrders(t *testing.T) engine.Primary {
	primary := table(t, filepath.Join(t.TempDir(), "tasks.db"))
	_, err := primary.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	return primary
}

// claim leases a task of a table by its id. First it reads the row again, as a worker does.
func claim(ctx context.Context, primary engine.Primary, id string) ([]string, error) {
	tasks, err := primary.Get(ctx, []engine.Key{{Topic: "orders", ID: id}})
	if err != nil || tasks[0].State != engine.Pending {
		return nil, err // the row says: nothing to do
	}
	claimed, err := primary.Claim(ctx, "orders", "worker", []engine.Wanted{{ID: id, Version: tasks[0].Version}}, time.Minute)
	if err != nil || !claimed[0].OK {
		return nil, err
	}
	return []string{id}, nil
}

// takes fails unless a worker gets this task within patience, and no other.
func takes(ctx context.Context, f front, id string, patience time.Duration) error {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		got, err := f.take(ctx)
		switch {
		case err != nil:
			return err
		case slices.Equal(got, []string{id}):
			return nil
		case len(got) > 0:
			return fmt.Errorf("%q are taken, must be %s", got, id)
		case time.Since(began) >= patience:
			return fmt.Errorf("%s is never taken", id)
		}
	}
}

// writtenTwice writes a row, then a member of a sorted set. Workers look only at the set.
type writtenTwice struct {
	engine.Primary
	client  *goredis.Client
	crashed *bool // true: the process ends between the two writes
}

func (w writtenTwice) set(ctx context.Context, id string) error {
	if _, err := w.Set(ctx, []engine.Task{{Topic: "orders", ID: id}}); err != nil || *w.crashed {
		return err
	}
	return w.client.ZAdd(ctx, "flawed", goredis.Z{Score: float64(time.Now().UnixMilli()), Member: id}).Err()
}

func (w writtenTwice) take(ctx context.Context) ([]string, error) {
	due, err := w.client.ZRangeArgs(ctx, goredis.ZRangeArgs{Key: "flawed", ByScore: true, Start: "-inf", Stop: time.Now().UnixMilli()}).Result()
	if err != nil || len(due) == 0 {
		return nil, err
	}
	if err := w.client.ZRem(ctx, "flawed", due[0]).Err(); err != nil {
		return nil, err
	}
	return claim(ctx, w.Primary, due[0])
}

// crashing is an engine out of reach of a crashed process.
type crashing struct {
	engine.Engine
	crashed *bool
}

func (c crashing) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	if *c.crashed {
		return nil, errDown
	}
	return c.Engine.Set(ctx, tasks)
}

// trial is a front with Redis, and the means to disturb it.
type trial struct {
	front
	crashed  *bool
	flush    func() error
	patience time.Duration // time for which workers ask for a task
}

// checkCrash crashes a process after the row is written, and before Redis hears of it.
func checkCrash(ctx context.Context, f trial) error {
	if err := f.set(ctx, "0"); err != nil {
		return err
	}
	if err := takes(ctx, f, "0", f.patience); err != nil {
		return err
	}
	*f.crashed = true
	err := f.set(ctx, "1")
	*f.crashed = false
	if err != nil {
		return err
	}
	return takes(ctx, f, "1", f.patience)
}

// checkFlushed empties Redis.
func checkFlushed(ctx context.Context, f trial) error {
	if err := errors.Join(f.set(ctx, "1"), f.flush()); err != nil {
		return err
	}
	return takes(ctx, f, "1", f.patience)
}

func TestFlaw17WhatIsInTheTableAndNotInRedisIsFound(t *testing.T) {
	server := testserver.Redis(t)
	options, err := goredis.ParseURL(server.URL)
	require.NoError(t, err)
	client := goredis.NewClient(options)
	defer client.Close()
	flush := func() error { return client.FlushAll(t.Context()).Err() }
	for name, check := range map[string]func(context.Context, trial) error{
		"a crash between the two": checkCrash, "a Redis that lost it": checkFlushed,
	} {
		var crashed bool
		flawed := writtenTwice{withOrders(t), client, &crashed}
		require.EqualError(t, check(t.Context(), trial{flawed, &crashed, flush, 500 * time.Millisecond}), "1 is never taken", name)
		require.NoError(t, flush())
		in, err := redis.Open(t.Context(), server.URL, redis.Config{})
		require.NoError(t, err)
		ours := over(t, withOrders(t), crashing{in, &crashed}, index.Config{Scan: 50 * time.Millisecond})
		require.NoError(t, check(t.Context(), trial{own{ours}, &crashed, flush, 20 * time.Second}), name)
		require.NoError(t, flush())
	}
}

// slowTable is a table with a pause before each write. Meanwhile it calls a function.
type slowTable struct {
	engine.Primary
	meanwhile *func()
}

func (s slowTable) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	(*s.meanwhile)()
	return s.Primary.Set(ctx, tasks)
}

// queuedFirst puts a task into a queue in memory, then saves it.
type queuedFirst struct {
	engine.Primary
	queue chan string
}

func (q queuedFirst) set(ctx context.Context, id string) error {
	q.queue <- id
	_, err := q.Set(ctx, []engine.Task{{Topic: "orders", ID: id}})
	return err
}

func (q queuedFirst) take(ctx context.Context) ([]string, error) {
	select {
	case id := <-q.queue:
		return claim(ctx, q.Primary, id)
	default:
		return nil, nil
	}
}

// checkQueue asks for a task while it is being saved, and afterwards. A worker must get it
// afterwards, without waiting for a scan.
func checkQueue(ctx context.Context, f front, meanwhile *func()) error {
	var early []string
	var failure error
	*meanwhile = func() { early, failure = f.take(ctx) }
	if err := f.set(ctx, "1"); err != nil || failure != nil {
		return errors.Join(err, failure)
	}
	if len(early) > 0 {
		return errors.New("1 is taken before it is saved")
	}
	return takes(ctx, f, "1", 0)
}

func TestFlaw20WhatIsSetIsSavedBeforeAWorkerCanTakeIt(t *testing.T) {
	meanwhile := func() {}
	flawed := queuedFirst{slowTable{withOrders(t), &meanwhile}, make(chan string, 10)}
	require.EqualError(t, checkQueue(t.Context(), flawed, &meanwhile), "1 is never taken")
	meanwhile = func() {}
	config := index.Config{Scan: time.Hour, Window: 2 * time.Hour, Logger: slog.New(slog.DiscardHandler)}
	ours := over(t, slowTable{withOrders(t), &meanwhile}, inMemory(t), config)
	require.NoError(t, checkQueue(t.Context(), own{ours}, &meanwhile))
}
