package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

// An opener returns an engine with nothing in it.
type opener func(context.Context) (engine.Engine, error)

func onRedis(s *servers) opener {
	return func(ctx context.Context) (engine.Engine, error) {
		if err := flushRedis(ctx, s); err != nil {
			return nil, err
		}
		return redis.Open(ctx, "redis://"+s.redis, redis.Config{})
	}
}

func onPostgres(s *servers) opener {
	return func(ctx context.Context) (engine.Engine, error) {
		pool, err := pgxpool.New(ctx, s.postgres)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		if _, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS ours CASCADE; CREATE SCHEMA ours"); err != nil {
			return nil, err
		}
		return postgres.Open(ctx, s.postgres+"&pool_max_conns=16&search_path=ours", postgres.Config{})
	}
}

func onSQLite(s *servers) opener {
	return func(context.Context) (engine.Engine, error) {
		dir, err := os.MkdirTemp(s.dir, "sqlite")
		if err != nil {
			return nil, err
		}
		return sqlite.Open(filepath.Join(dir, "tasks.db"), sqlite.Config{})
	}
}

// with calls f with a center on a new engine.
func with(ctx context.Context, open opener, f func(engine.Engine, *timeout.Center) error) error {
	e, err := open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	center, err := timeout.New(e, timeout.Config{Logger: quiet})
	if err != nil {
		return err
	}
	defer center.Close()
	if _, err := center.SetTopic(ctx, timeout.Topic{Name: topic}); err != nil {
		return err
	}
	return f(e, center)
}

const topic = "bench"

// setSingly sets tasks from 64 goroutines, a call for each.
func setSingly(ctx context.Context, center *timeout.Center, n int, due func() time.Time) error {
	return parallel(64, n, func(i int) error {
		_, err := center.Set(ctx, timeout.Task{Topic: topic, ID: id(i), Payload: payload, Due: due()})
		return err
	})
}

// setInBatches sets tasks a thousand at a time, on four goroutines.
func setInBatches(ctx context.Context, center *timeout.Center, n int, due func() time.Time) error {
	return parallelChunks(4, n, 1000, func(from, to int) error {
		batch := make([]timeout.Task, 0, to-from)
		for i := from; i < to; i++ {
			batch = append(batch, timeout.Task{Topic: topic, ID: id(i), Payload: payload, Due: due()})
		}
		answers, err := center.SetAll(ctx, batch)
		for _, answer := range answers {
			if answer.Err != nil {
				return answer.Err
			}
		}
		return err
	})
}

type setter func(context.Context, *timeout.Center, int, func() time.Time) error

func scheduleRate(open opener, set setter) func(context.Context) (float64, error) {
	return func(ctx context.Context) (figure float64, err error) {
		err = with(ctx, open, func(_ engine.Engine, center *timeout.Center) error {
			figure, err = perSecond(*tasks, func() error { return set(ctx, center, *tasks, inAnHour) })
			return err
		})
		return figure, err
	}
}

// redisCost notes the processor time of a task in microseconds, of this process and of Redis.
func redisCost(s *servers, measure func(context.Context) (float64, error), note *string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		if err := flushRedis(ctx, s); err != nil { // it takes a while, and is no task's cost
			return 0, err
		}
		own, theirs, err := processor(ctx, s.server.Processor)
		if err != nil {
			return 0, err
		}
		figure, err := measure(ctx)
		if err != nil {
			return 0, err
		}
		own2, theirs2, err := processor(ctx, s.server.Processor)
		each := 1e6 / float64(*tasks)
		*note = fmt.Sprintf("processor time of a task: process %.1f µs, server %.1f µs", (own2-own)*each, (theirs2-theirs)*each)
		return figure, err
	}
}

// consumeRate returns the tasks handled and settled in a second, when all are due at once.
func consumeRate(open opener) func(context.Context) (float64, error) {
	return func(ctx context.Context) (figure float64, err error) {
		err = with(ctx, open, func(_ engine.Engine, center *timeout.Center) error {
			if err := setInBatches(ctx, center, *tasks, at(time.Now())); err != nil {
				return err
			}
			figure, err = perSecond(*tasks, func() error { return consume(ctx, center, *tasks, nil) })
			return err
		})
		return figure, err
	}
}

// consume runs the center until n tasks have been handled and none is left.
func consume(ctx context.Context, center *timeout.Center, n int, observe func(timeout.Task)) error {
	var handled atomic.Int64
	if err := center.Handle(topic, func(_ context.Context, task timeout.Task) error {
		if observe != nil {
			observe(task)
		}
		handled.Add(1)
		return nil
	}); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- center.Run(running) }()
	err := eventually(ctx, func() (bool, error) {
		if handled.Load() < int64(n) {
			return false, nil
		}
		counts, err := center.Count(ctx, topic)
		return counts.Running+counts.Pending == 0, err
	})
	stop()
	return joined(err, <-ended)
}

func joined(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// lateRate returns the 99th percentile of the lateness in milliseconds under a steady load.
func lateRate(open opener, note *string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (figure float64, err error) {
		err = with(ctx, open, func(_ engine.Engine, center *timeout.Center) error {
			late := new(lateness)
			total := int(float64(*rate) * steady.Seconds())
			ended := make(chan error, 1)
			go func() { ended <- consume(ctx, center, total, func(task timeout.Task) { late.observe(task.Payload) }) }()
			err := steadily(ctx, *rate, *steady, func(i int, due time.Time) error {
				_, err := center.Set(ctx, timeout.Task{Topic: topic, ID: id(i), Payload: dueIn(due), Due: due})
				return err
			})
			if err := joined(err, <-ended); err != nil {
				return err
			}
			*note = fmt.Sprintf("at %d/s; ", *rate) + late.note()
			figure = late.p99()
			return nil
		})
		return figure, err
	}
}

func redisMemory(s *servers) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		return memoryPerTask(ctx, s, func() error {
			engine, err := redis.Open(ctx, "redis://"+s.redis, redis.Config{})
			if err != nil {
				return err
			}
			defer engine.Close()
			center, err := timeout.New(engine, timeout.Config{Logger: quiet})
			if err != nil {
				return err
			}
			return setInBatches(ctx, center, *tasks, at(time.Now().Add(time.Hour)))
		})
	}
}

// longestScript returns how many milliseconds the slowest command took while many pending
// tasks were drained.
func longestScript(s *servers, note *string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (figure float64, err error) {
		client := goredis.NewClient(&goredis.Options{Addr: s.redis})
		defer client.Close()
		err = with(ctx, onRedis(s), func(_ engine.Engine, center *timeout.Center) error {
			if err := setInBatches(ctx, center, *drain, at(time.Now())); err != nil {
				return err
			}
			if err := client.ConfigSet(ctx, "slowlog-log-slower-than", "500").Err(); err != nil {
				return err
			}
			if err := client.SlowLogReset(ctx).Err(); err != nil {
				return err
			}
			speed, err := perSecond(*drain, func() error { return consume(ctx, center, *drain, nil) })
			if err != nil {
				return err
			}
			*note = fmt.Sprintf("%d tasks at %.0f/s", *drain, speed)
			slow, err := client.SlowLogGet(ctx, 128).Result()
			if err != nil || len(slow) == 0 {
				return err
			}
			slowest := slices.MaxFunc(slow, func(a, b goredis.SlowLog) int { return int(a.Duration - b.Duration) })
			figure = float64(slowest.Duration.Microseconds()) / 1000
			return nil
		})
		return figure, err
	}
}

// measurements are all of them. Those of one name are compared with the first.
func measurements(s *servers) []measurement {
	const perSec = "%.0f"
	var asynqNote, ourNote, drainNote string
	said := func(note *string) func() string { return func() string { return *note } }
	scheduled := func(subject string, measure func(context.Context) (float64, error)) measurement {
		return noted("Redis: scheduled, tasks/s", subject, perSec, func(note *string) func(context.Context) (float64, error) {
			return redisCost(s, measure, note)
		})
	}
	all := []measurement{
		scheduled("asynq, 64 callers", asynqScheduleRate(s)),
		scheduled("Set, 64 callers", scheduleRate(onRedis(s), setSingly)),
		scheduled("SetAll, 1000 each, 4 callers", scheduleRate(onRedis(s), setInBatches)),
		{"Redis: due at once, handled and settled, tasks/s", "asynq, tuned", perSec, asynqConsumeRate(s), nil},
		{"Redis: due at once, handled and settled, tasks/s", "Center", perSec, consumeRate(onRedis(s)), nil},
		{"Redis: lateness under steady load, p99, ms", "asynq, tuned", "%.1f", asynqLateness(s, &asynqNote), said(&asynqNote)},
		{"Redis: lateness under steady load, p99, ms", "Center", "%.1f", lateRate(onRedis(s), &ourNote), said(&ourNote)},
		{"Redis: memory per task, bytes", "asynq", perSec, asynqMemory(s, false), nil},
		{"Redis: memory per task, bytes", "asynq, ids of its own", perSec, asynqMemory(s, true), nil},
		{"Redis: memory per task, bytes", "Center", perSec, redisMemory(s), nil},
		{"Redis: longest script, ms", "Center", "%.1f", longestScript(s, &drainNote), said(&drainNote)},
		{"PostgreSQL: scheduled, tasks/s", "river, InsertManyFast", perSec, riverScheduleRate(s), nil},
		{"PostgreSQL: scheduled, tasks/s", "SetAll", perSec, scheduleRate(onPostgres(s), setInBatches), nil},
		{"PostgreSQL: due at once, handled and settled, tasks/s", "river, 256 workers", perSec, riverConsumeRate(s), nil},
		{"PostgreSQL: due at once, handled and settled, tasks/s", "Center", perSec, consumeRate(onPostgres(s)), nil},
		{"SQLite: scheduled, tasks/s", "SetAll", perSec, scheduleRate(onSQLite(s), setInBatches), nil},
		{"SQLite: due at once, handled and settled, tasks/s", "Center", perSec, consumeRate(onSQLite(s)), nil},
	}
	return slices.Concat(all, idleRows(s), moveRows(s), deadRows())
}
