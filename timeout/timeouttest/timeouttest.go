// Package timeouttest tests handlers without waiting: a center in a bubble of testing/synctest, where an hour passes at once.
//
//	synctest.Test(t, func(t *testing.T) {
//		center := timeouttest.New(t, timeout.Config{})
//		shop := newShop(center.Center) // it gives its handlers to Center.Handle, and sets a task for each order
//		shop.order("4711")
//		center.Await(timeout.Key{Topic: "unpaid", ID: "4711"}) // 15 minutes pass
//		center.NothingDue(24 * time.Hour)
//	})
package timeouttest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

const (
	// step is between two looks at a task.
	step = 100 * time.Millisecond

	// patience is how long Await waits for an attempt after its time, and for the end of it.
	patience = time.Hour
)

// Center is a running center on an engine in memory. Its methods but those of timeout.Center are for the goroutine of the
// test.
type Center struct {
	*timeout.Center
	t testing.TB
}

// New returns a center that runs until the end of the test. It must be called in a bubble of synctest.Test. An error fails the
// test. The zero Config.TTL means 10 minutes, since there are no other nodes, and a nil Config.Logger logs to t.
func New(t testing.TB, cfg timeout.Config) *Center {
	t.Helper()
	cfg.TTL = cmp.Or(cfg.TTL, 10*time.Minute)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("timeouttest: %v", err)
		}
	}
	e, err := memory.New(memory.Config{})
	must(err)
	t.Cleanup(func() { must(e.Close()) })
	center, err := timeout.New(e, cfg)
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- center.Run(ctx) }()
	t.Cleanup(func() { cancel(); must(errors.Join(<-ran, center.Close())) })
	c := &Center{center, t}
	return c
}

// Await lets time pass until the next attempt at a task has ended: one that is running, or the next one. It returns the task
// as it is then; its State is None if the task is done and not kept. The test fails at once if the task is missing, dead, done
// or removed, and if no attempt has ended an hour after its time: the topic may be paused, or have no handler.
func (c *Center) Await(key timeout.Key) timeout.Task {
	c.t.Helper()
	task := c.get(key)
	calls := task.Calls
	switch task.State {
	case timeout.Running:
		calls--
	case timeout.Pending:
		time.Sleep(time.Until(task.Until))
	default:
		c.t.Fatalf("timeouttest: task %v is %v, must wait or run", key, task.State)
	}
	for until := time.Now().Add(patience); ; time.Sleep(step) {
		synctest.Wait()
		switch task = c.get(key); {
		case task.State != timeout.Running && (task.State != timeout.Pending || task.Calls > calls):
			return task
		case time.Now().After(until):
			c.t.Fatalf("timeouttest: no attempt at task %v has ended within %v of its time %v: it is %v", key, patience, task.Due, task.State)
		}
	}
}

// get returns a task, or one of State None.
func (c *Center) get(key timeout.Key) timeout.Task {
	c.t.Helper()
	tasks, err := c.GetAll(context.Background(), []timeout.Key{key})
	if err != nil {
		c.t.Fatalf("timeouttest: %v", err)
	}
	return tasks[0]
}

// NothingDue fails the test if a task runs, or waits for a time within the duration from now. No time passes.
func (c *Center) NothingDue(within time.Duration) {
	c.t.Helper()
	synctest.Wait()
	topics, err := c.Topics(context.Background())
	if err != nil {
		c.t.Fatalf("timeouttest: %v", err)
	}
	until := time.Now().Add(within)
	for _, topic := range topics {
		for _, state := range []timeout.State{timeout.Running, timeout.Pending} {
			page, err := c.List(context.Background(), engine.Query{Topic: topic.Name, State: state, Limit: 1})
			if err != nil {
				c.t.Fatalf("timeouttest: %v", err)
			}
			for _, task := range page.Tasks {
				if state == timeout.Running {
					c.t.Errorf("timeouttest: task %v runs, must not", task.Key())
				} else if !task.Until.After(until) {
					c.t.Errorf("timeouttest: task %v is due in %v, must not be within %v", task.Key(), time.Until(task.Until), within)
				}
			}
		}
	}
}
