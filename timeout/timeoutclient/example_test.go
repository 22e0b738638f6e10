package timeoutclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

func Example() {
	client, err := timeoutclient.New("http://127.0.0.1:8077", timeoutclient.Config{Token: os.Getenv("TIMEOUTD_TOKEN")})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	// An unpaid order is cancelled in fifteen minutes.
	order := engine.Key{Topic: "orders", ID: "4711"}
	_, err = client.Set(ctx, engine.Task{
		Topic: order.Topic, ID: order.ID, After: 15 * time.Minute, Payload: []byte(`{"order":4711}`),
		Callback: &engine.Callback{Kind: "http", Target: "https://shop.example.com/unpaid"},
	})
	if errors.Is(err, engine.ErrFull) {
		fmt.Println("there is no room for more tasks")
	}

	// It is paid.
	answer, err := client.Remove(ctx, order)
	if err == nil && !answer.Changed {
		fmt.Println("too late: the task is", answer.Was)
	}
}

// One task's life, from the topic to the attempts that have ended.
func Example_life() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := timeoutclient.New("http://127.0.0.1:8077", timeoutclient.Config{})
	check(err)
	defer client.Close()

	_, err = client.SetTopic(ctx, engine.Topic{
		Name: "go", Retain: time.Hour, Callback: &engine.Callback{Kind: "http", Target: "http://127.0.0.1:9000/unpaid"},
	})
	check(err)
	order := engine.Key{Topic: "go", ID: "4711"}
	_, err = client.Set(ctx, engine.Task{Topic: order.Topic, ID: order.ID, After: 15 * time.Minute, Payload: []byte(`{"order":4711}`)})
	check(err)
	_, err = client.MoveAfter(ctx, order, 0)
	check(err)
	for state := engine.Pending; state != engine.Done; time.Sleep(100 * time.Millisecond) {
		task, err := client.Get(ctx, order)
		check(err)
		state = task.State
	}
	executions, err := client.Executions(ctx, order, 1)
	check(err)
	fmt.Println(order, "is", executions[0].As, "after attempt", executions[0].Attempt)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_All() {
	client, err := timeoutclient.New("http://127.0.0.1:8077", timeoutclient.Config{})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	for task, err := range client.All(context.Background(), engine.Query{Topic: "orders", State: engine.Dead}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(task.ID, task.Until, task.Error)
	}
}

// A worker does up to four tasks at a time.
func ExampleClient_Work() {
	client, err := timeoutclient.New("http://127.0.0.1:8077", timeoutclient.Config{Token: os.Getenv("TIMEOUTD_TOKEN")})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err = client.Work(ctx, timeoutclient.Pull{Topic: "thumbnails", Max: 4}, func(ctx context.Context, task timeoutclient.Leased) timeoutclient.Outcome {
		switch err := shrink(ctx, task.Payload); {
		case ctx.Err() != nil:
			return timeoutclient.Outcome{Returned: true}
		case err != nil:
			return timeoutclient.Outcome{Error: err.Error()}
		}
		return timeoutclient.Outcome{}
	})
	if err != nil {
		panic(err) // the topic is missing, or the token is wrong
	}
}

func shrink(context.Context, []byte) error { return nil }
