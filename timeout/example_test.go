package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// An order not paid in time is cancelled.
func Example() {
	engine, err := memory.New(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	center, err := timeout.New(engine, timeout.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer center.Close()

	ctx, cancel := context.WithCancel(context.Background())
	err = center.Handle("unpaid", func(_ context.Context, task timeout.Task) error {
		fmt.Println("cancel order", task.ID)
		cancel()
		return nil // done; an error would have it tried again
	})
	if err != nil {
		log.Fatal(err)
	}

	for _, order := range []string{"4711", "4712"} {
		if _, err := center.Set(ctx, timeout.Task{Topic: "unpaid", ID: order, After: 50 * time.Millisecond}); err != nil {
			log.Fatal(err)
		}
	}
	answer, err := center.Remove(ctx, timeout.Key{Topic: "unpaid", ID: "4711"}) // it is paid
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("was", answer.Was)

	if err := center.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// was pending
	// cancel order 4712
}

func ExampleRetryAfter() {
	engine, err := memory.New(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	center, err := timeout.New(engine, timeout.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = center.Handle("mails", func(ctx context.Context, task timeout.Task) error {
		err := send(ctx, task.Payload)
		switch {
		case errors.Is(err, errBusy):
			return timeout.RetryAfter(err, time.Minute)
		case errors.Is(err, errNoSuchUser):
			return timeout.Permanent(err) // dead at once: nobody needs to try again
		default:
			return err // nil is done, and anything else is tried again, later and later
		}
	})
	fmt.Println(err)
	// Output: <nil>
}

var errBusy, errNoSuchUser = errors.New("busy"), errors.New("no such user")

func send(context.Context, []byte) error { return nil }

// A gateway checks a device every few minutes, as long as the device answers. The check is a task that
// runs again and again. Like any task it survives a crash.
func ExampleAgain() {
	engine, err := memory.New(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	center, err := timeout.New(engine, timeout.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer center.Close()

	ctx, cancel := context.WithCancel(context.Background())
	const every = 20 * time.Millisecond // 5 * time.Minute, in earnest
	checks := 0
	gone := func(id string) bool {
		if checks++; checks > 3 {
			fmt.Println(id, "is gone")
			cancel()
			return true
		}
		fmt.Println(id, "is there")
		return false
	}
	err = center.Handle("devices", func(_ context.Context, task timeout.Task) error {
		if gone(task.ID) {
			return nil // done: no further check
		}
		return timeout.Again(every)
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := center.Set(ctx, timeout.Task{Topic: "devices", ID: "device-7"}); err != nil {
		log.Fatal(err)
	}
	if err := center.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// device-7 is there
	// device-7 is there
	// device-7 is there
	// device-7 is gone
}

// A backup each night, in a zone with a summer time. The program sets the task at each start.
func Example_periodic() {
	engine, err := memory.New(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	center, err := timeout.New(engine, timeout.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer center.Close()
	ctx, cancel := context.WithCancel(context.Background())

	_, err = center.SetTopic(ctx, timeout.Topic{Name: "backups", Every: "CRON_TZ=Europe/Berlin 30 2 * * *"})
	if err != nil {
		log.Fatal(err)
	}
	err = center.Handle("backups", func(ctx context.Context, task timeout.Task) error {
		return backUp(ctx, task.ID) // after a failure it is tried again, and then at the next time
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = center.Set(ctx, timeout.Task{Topic: "backups", ID: "orders", IfAbsent: true}) // now, and then each night
	if err != nil {
		log.Fatal(err)
	}
	go func() { // the example ends after the first run
		for {
			task, err := center.Get(ctx, timeout.Key{Topic: "backups", ID: "orders"})
			if err == nil && task.Due.After(time.Now()) {
				fmt.Println("the next run is within a day:", time.Until(task.Due) < 25*time.Hour)
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := center.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// backing up orders
	// the next run is within a day: true
}

func backUp(_ context.Context, id string) error {
	fmt.Println("backing up", id)
	return nil
}

// Settings of a topic are kept in the engine, for all nodes.
func ExampleCenter_SetTopic() {
	engine, err := memory.New(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	center, err := timeout.New(engine, timeout.Config{})
	if err != nil {
		log.Fatal(err)
	}
	topic, err := center.SetTopic(context.Background(), timeout.Topic{
		Name:        "mails",
		Slots:       16,                 // parts, of which each node serves some; can grow
		Concurrency: 8,                  // handlers at the same time, on each node
		Rate:        100,                // begun in a second, on each node
		GlobalRate:  250,                // begun in a second, on all nodes together
		Retries:     5,                  // then it is dead, and waits for a replay
		Backoff:     2 * time.Second,    // then 4s, 8s …
		Lease:       10 * time.Second,   // so long a node may be silent
		Timeout:     time.Minute,        // so long a handler may take
		Retain:      7 * 24 * time.Hour, // to look at what was done
	})
	fmt.Println(topic.Name, topic.Slots, err)
	// Output: mails 16 <nil>
}

// The tasks of a pulled topic wait until somebody asks for them, here on behalf of a program elsewhere.
func ExampleCenter_Pull() {
	ctx := context.Background()
	engine, err := memory.New(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	center, err := timeout.New(engine, timeout.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer center.Close()
	if _, err := center.SetTopic(ctx, timeout.Topic{Name: "thumbnails", Pull: true}); err != nil {
		log.Fatal(err)
	}
	if _, err := center.Set(ctx, timeout.Task{Topic: "thumbnails", ID: "4711"}); err != nil {
		log.Fatal(err)
	}
	leased, err := center.Pull(ctx, timeout.Pull{Topic: "thumbnails", Max: 10, Wait: 20 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	for _, one := range leased {
		left, err := center.Extend(ctx, one.Token, time.Minute) // the work takes longer than Topic.Lease
		fmt.Println(one.ID, left, err)                          // zero: the lease is lost
		settled, err := center.Feedback(ctx, one.Token, nil)    // or the error of the work
		fmt.Println(one.ID, settled, err)
	}
	// Output:
	// 4711 1m0s <nil>
	// 4711 true <nil>
}
