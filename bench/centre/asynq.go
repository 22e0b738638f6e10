package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// Tuned: the forwarder looks each 50ms and not each 5s, and idle workers each 10ms.
func asynqServer(addr string) *asynq.Server {
	return asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, asynq.Config{
		Concurrency:              64,
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		TaskCheckInterval:        10 * time.Millisecond,
		LogLevel:                 asynq.FatalLevel,
	})
}

// asynqSchedule schedules tasks for due from 64 goroutines. All subjects use the same ids.
func asynqSchedule(ctx context.Context, addr string, n int, due func() time.Time) error {
	return asynqEnqueue(ctx, addr, n, func(i int) []asynq.Option { return []asynq.Option{asynq.TaskID(id(i)), asynq.ProcessAt(due())} })
}

func asynqEnqueue(ctx context.Context, addr string, n int, options func(i int) []asynq.Option) error {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: addr, PoolSize: 64})
	defer client.Close()
	return parallel(64, n, func(i int) error {
		_, err := client.EnqueueContext(ctx, asynq.NewTask("bench", payload), options(i)...)
		return err
	})
}

// asynqScheduleRate returns how many tasks are scheduled in a second.
func asynqScheduleRate(s *servers) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		if err := flushRedis(ctx, s); err != nil {
			return 0, err
		}
		return perSecond(*tasks, func() error { return asynqSchedule(ctx, s.redis, *tasks, inAnHour) })
	}
}

// asynqConsumeRate returns the tasks handled in a second, when all are due at once.
func asynqConsumeRate(s *servers) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		if err := flushRedis(ctx, s); err != nil {
			return 0, err
		}
		if err := asynqSchedule(ctx, s.redis, *tasks, at(time.Now().Add(time.Second))); err != nil {
			return 0, err
		}
		time.Sleep(2 * time.Second)
		inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: s.redis})
		defer inspector.Close()
		var handled atomic.Int64
		server := asynqServer(s.redis)
		defer server.Shutdown()
		return perSecond(*tasks, func() error {
			err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
				handled.Add(1)
				return nil
			}))
			if err != nil {
				return err
			}
			return eventually(ctx, func() (bool, error) {
				if handled.Load() < int64(*tasks) {
					return false, nil
				}
				info, err := inspector.GetQueueInfo("default")
				return err == nil && info.Active == 0, err
			})
		})
	}
}

// asynqLateness returns the 99th percentile of the lateness in milliseconds under a steady
// load, a fifth of that of the others: asynq can do no more.
func asynqLateness(s *servers, note *string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		if err := flushRedis(ctx, s); err != nil {
			return 0, err
		}
		client := asynq.NewClient(asynq.RedisClientOpt{Addr: s.redis, PoolSize: 64})
		defer client.Close()
		late := new(lateness)
		server := asynqServer(s.redis)
		defer server.Shutdown()
		if err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
			late.observe(task.Payload())
			return nil
		})); err != nil {
			return 0, err
		}
		slow := *rate / 5
		err := steadily(ctx, slow, *steady, func(i int, due time.Time) error {
			_, err := client.EnqueueContext(ctx, asynq.NewTask("bench", dueIn(due)), asynq.TaskID(id(i)), asynq.ProcessAt(due))
			return err
		})
		if err != nil {
			return 0, err
		}
		total := int64(float64(slow) * steady.Seconds())
		if err := eventually(ctx, func() (bool, error) { return late.count() >= total, nil }); err != nil {
			return 0, err
		}
		*note = fmt.Sprintf("at %d/s; ", slow) + late.note()
		return late.p99(), nil
	}
}

// asynqMemory returns how many bytes of Redis a scheduled task takes, with an id of ours or
// with one of asynq.
func asynqMemory(s *servers, ownID bool) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		return memoryPerTask(ctx, s, func() error {
			due := at(time.Now().Add(time.Hour))
			if ownID {
				return asynqEnqueue(ctx, s.redis, *tasks, func(int) []asynq.Option { return []asynq.Option{asynq.ProcessAt(due())} })
			}
			return asynqSchedule(ctx, s.redis, *tasks, due)
		})
	}
}

var quiet = slog.New(slog.DiscardHandler)
