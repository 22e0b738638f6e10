package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// payload has 64 bytes and id 17, as in all comparisons here.
var payload = bytes.Repeat([]byte("payload."), 8)

func id(i int) string { return fmt.Sprintf("order-%011d", i) }

// perSecond returns the rate of f, for its n things.
func perSecond(n int, f func() error) (float64, error) {
	start := time.Now()
	err := f()
	return float64(n) / time.Since(start).Seconds(), err
}

// parallel calls f with 0 to n-1 on so many goroutines.
func parallel(goroutines, n int, f func(i int) error) error {
	return parallelChunks(goroutines, n, (n+goroutines-1)/goroutines, func(from, to int) error {
		for i := from; i < to; i++ {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	})
}

// parallelChunks calls f with parts of 0 to n-1 on so many goroutines.
func parallelChunks(goroutines, n, chunk int, f func(from, to int) error) error {
	var group errgroup.Group
	group.SetLimit(goroutines)
	for from := 0; from < n; from += chunk {
		group.Go(func() error { return f(from, min(from+chunk, n)) })
	}
	return group.Wait()
}

// eventually waits until done says so, for two minutes at most.
func eventually(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return errors.New("not done in two minutes")
		}
	}
}

// steadily calls set at that rate, from 64 goroutines, with action times a second ahead.
func steadily(ctx context.Context, rate int, d time.Duration, set func(i int, due time.Time) error) error {
	const goroutines = 64
	start := time.Now()
	interval := time.Second * goroutines / time.Duration(rate)
	total := int(float64(rate) * d.Seconds())
	var group errgroup.Group
	for g := range goroutines {
		group.Go(func() error {
			for i := g; i < total; i += goroutines {
				at := start.Add(time.Duration(i/goroutines)*interval + time.Duration(g)*interval/goroutines)
				select {
				case <-time.After(time.Until(at)):
				case <-ctx.Done():
					return ctx.Err()
				}
				if err := set(i, time.Now().Add(time.Second)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// inAnHour is the time of a timeout that is set now. Tasks set one after the other have different ones.
func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// at is one time for all tasks.
func at(t time.Time) func() time.Time { return func() time.Time { return t } }

// dueIn is a payload of 64 bytes with the action time. It is rounded up to the millisecond, as
// the subjects with milliseconds do.
func dueIn(due time.Time) []byte {
	body := make([]byte, 64)
	binary.BigEndian.PutUint64(body, uint64(due.UnixNano()))
	return body
}

// lateness is measured by this process's clock, from the requested action time.
type lateness struct {
	mu    sync.Mutex
	hist  *hdrhistogram.Histogram
	early int64
	least time.Duration
	n     int64
}

func (l *lateness) observe(body []byte) {
	late := time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(body))))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hist == nil {
		l.hist = hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
		l.least = late
	}
	l.n++
	l.least = min(l.least, late)
	if late < 0 {
		l.early++
	}
	_ = l.hist.RecordValue(max(late.Microseconds(), 1))
}

func (l *lateness) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

func (l *lateness) p99() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(l.hist.ValueAtQuantile(99)) / 1000
}

func (l *lateness) note() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d of %d early, least %.1f ms, p50 %.1f, most %.0f", l.early, l.n,
		float64(l.least.Microseconds())/1000, float64(l.hist.ValueAtQuantile(50))/1000, float64(l.hist.Max())/1000)
}

func flushRedis(ctx context.Context, s *servers) error {
	client := redis.NewClient(&redis.Options{Addr: s.redis})
	defer client.Close()
	return client.FlushAll(ctx).Err()
}

// memoryPerTask returns the growth of Redis for each task scheduled by f.
func memoryPerTask(ctx context.Context, s *servers, f func() error) (float64, error) {
	if err := flushRedis(ctx, s); err != nil {
		return 0, err
	}
	before, err := usedMemory(ctx, s)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	time.Sleep(time.Second) // for the buffers of connections that have been closed
	after, err := usedMemory(ctx, s)
	return float64(after-before) / float64(*tasks), err
}

func usedMemory(ctx context.Context, s *servers) (int64, error) {
	client := redis.NewClient(&redis.Options{Addr: s.redis})
	defer client.Close()
	info, err := client.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	var used int64
	_, err = fmt.Sscan(info["Memory"]["used_memory"], &used)
	return used, err
}
