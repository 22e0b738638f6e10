package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func deadRows() (rows []measurement) {
	fails := []struct {
		name   string
		signal syscall.Signal
	}{{"all live", 0}, {"killed", syscall.SIGKILL}, {"stopped", syscall.SIGSTOP}}
	for _, what := range []struct {
		name string
		of   func(syscall.Signal, *string) func(context.Context) (float64, error)
	}{{"Set, 64 callers, p99, ms", deadSet}, {"lateness, p99, ms", deadLate}} {
		for _, how := range fails {
			rows = append(rows, noted("Redis Cluster, two of three masters: "+what.name, "the third: "+how.name, "%.1f",
				func(note *string) func(context.Context) (float64, error) { return what.of(how.signal, note) }))
		}
	}
	return rows
}

// withDead calls f with a center on a Cluster of three masters. fail does to one of them what the
// signal does, and lives reports whether an id is on another one.
func withDead(ctx context.Context, signal syscall.Signal, f func(center *timeout.Center, fail func() error, lives func(id string) bool) error) error {
	c, err := startCluster(ctx)
	if err != nil {
		return err
	}
	defer c.stop()
	open := func(ctx context.Context) (engine.Engine, error) {
		return redis.Open(ctx, "redis://127.0.0.1:"+c.masters[0].port, redis.Config{})
	}
	return with(ctx, open, func(_ engine.Engine, center *timeout.Center) error {
		victim, parts, err := c.victim(ctx)
		if err != nil {
			return err
		}
		fail := func() error {
			if signal == 0 {
				return nil
			}
			return victim.signal(signal)
		}
		return f(center, fail, func(id string) bool { return !parts[engine.Slot(id, engine.DefaultSlots)] })
	})
}

// deadSet returns the 99th percentile of how long a Set takes, in milliseconds: 64 callers set new
// tasks on two masters while the third one fails, and 16 others try to set some on the third.
func deadSet(signal syscall.Signal, note *string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (figure float64, err error) {
		err = withDead(ctx, signal, func(center *timeout.Center, fail func() error, lives func(id string) bool) error {
			var mu sync.Mutex
			hist, failed := hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3), 0
			var measures, stop atomic.Bool
			var callers sync.WaitGroup
			for caller := range 80 {
				wanted := caller < 64
				callers.Go(func() {
					for i := 0; !stop.Load(); i++ {
						task := timeout.Task{Topic: topic, ID: fmt.Sprint(caller, "-", i), Payload: payload, After: time.Hour}
						if lives(task.ID) != wanted {
							continue
						}
						began := time.Now()
						_, err := center.Set(ctx, task)
						if took := time.Since(began); wanted && measures.Load() {
							mu.Lock()
							_ = hist.RecordValue(max(took.Microseconds(), 1))
							if err != nil {
								failed++
							}
							mu.Unlock()
						}
						if err != nil {
							time.Sleep(10 * time.Millisecond)
						}
					}
				})
			}
			time.Sleep(time.Second)
			measures.Store(true)
			err := fail()
			time.Sleep(*dead)
			stop.Store(true)
			callers.Wait()
			*note = fmt.Sprintf("%d calls in %v, %d failed, most %.0f ms", hist.TotalCount(), *dead, failed, float64(hist.Max())/1000)
			figure = float64(hist.ValueAtQuantile(99)) / 1000
			return err
		})
		return figure, err
	}
}

// deadLate returns the 99th percentile of the lateness in milliseconds: 500 tasks a second of two
// masters, and as many of the third one for each of them, are due while the third one fails.
func deadLate(signal syscall.Signal, note *string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (figure float64, err error) {
		err = withDead(ctx, signal, func(center *timeout.Center, fail func() error, lives func(id string) bool) error {
			late, count := new(lateness), 0
			start := time.Now().Add(2 * time.Second)
			var tasks []timeout.Task
			for i := 0; count < int(500*dead.Seconds()); i++ {
				due := start.Add(time.Duration(count) * 2 * time.Millisecond)
				tasks = append(tasks, timeout.Task{Topic: topic, ID: id(i), Payload: dueIn(due), Due: due})
				if lives(id(i)) {
					count++
				}
			}
			if _, err := center.SetAll(ctx, tasks); err != nil {
				return err
			}
			if err := center.Handle(topic, func(_ context.Context, task timeout.Task) error {
				if lives(task.ID) {
					late.observe(task.Payload)
				}
				return nil
			}); err != nil {
				return err
			}
			return whileRunning(ctx, center, func() error {
				time.Sleep(time.Until(start))
				if err := fail(); err != nil {
					return err
				}
				err := eventually(ctx, func() (bool, error) { return late.count() >= int64(count), nil })
				if err == nil {
					*note, figure = late.note(), late.p99()
				}
				return err
			})
		})
		return figure, err
	}
}
