// Command session is one task's life in Go: timeoutd's page docs/three-ways.md leads here.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

func main() {
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
