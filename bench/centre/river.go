package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type riverJob struct {
	ID   string `json:"id"`
	Body []byte `json:"body"`
}

func (riverJob) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverJob]
	handled *atomic.Int64
}

func (w *riverWorker) Work(context.Context, *river.Job[riverJob]) error {
	w.handled.Add(1)
	return nil
}

// riverRig is a client of river on an empty table.
type riverRig struct {
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	handled atomic.Int64
}

func newRiver(ctx context.Context, s *servers) (*riverRig, error) {
	pool, err := pgxpool.New(ctx, s.postgres+"&pool_max_conns=16")
	if err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return nil, err
	}
	r := &riverRig{pool: pool}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handled: &r.handled})
	r.client, err = river.NewClient(driver, &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 256}},
		Workers:           workers,
		Logger:            quiet,
		FetchCooldown:     20 * time.Millisecond,
		FetchPollInterval: 100 * time.Millisecond,
	})
	return r, err
}

// insert inserts jobs by InsertManyFast, a thousand at a time, on four goroutines.
func (r *riverRig) insert(ctx context.Context, n int, due func() time.Time) error {
	return parallelChunks(4, n, 1000, func(from, to int) error {
		params := make([]river.InsertManyParams, 0, to-from)
		for i := from; i < to; i++ {
			opts := &river.InsertOpts{ScheduledAt: due()}
			params = append(params, river.InsertManyParams{Args: riverJob{ID: id(i), Body: payload}, InsertOpts: opts})
		}
		_, err := r.client.InsertManyFast(ctx, params)
		return err
	})
}

func riverScheduleRate(s *servers) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		r, err := newRiver(ctx, s)
		if err != nil {
			return 0, err
		}
		defer r.pool.Close()
		return perSecond(*tasks, func() error { return r.insert(ctx, *tasks, inAnHour) })
	}
}

// riverConsumeRate has jobs without a time. A maintenance service has to move the others first, and is
// slower.
func riverConsumeRate(s *servers) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		r, err := newRiver(ctx, s)
		if err != nil {
			return 0, err
		}
		defer r.pool.Close()
		if err := r.insert(ctx, *tasks, at(time.Time{})); err != nil {
			return 0, err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_ = r.client.StopAndCancel(ctx)
		}()
		return perSecond(*tasks, func() error {
			if err := r.client.Start(ctx); err != nil {
				return err
			}
			return eventually(ctx, func() (bool, error) {
				if r.handled.Load() < int64(*tasks) {
					return false, nil
				}
				var left int
				err := r.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state <> 'completed'").Scan(&left)
				return left == 0, err
			})
		})
	}
}
