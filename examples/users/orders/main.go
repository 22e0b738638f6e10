// Command orders cancels orders that are not paid in time.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "orders.db"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) error {
	store, err := sqlite.Open(file, sqlite.Config{}) // or redis, or postgres
	if err != nil {
		return err
	}
	defer store.Close()
	center, err := timeout.New(store, timeout.Config{})
	if err != nil {
		return err
	}
	defer center.Close()

	err = center.Handle("unpaid", func(_ context.Context, task timeout.Task) error {
		log.Println("cancel order", task.ID)
		return nil // done; after an error it is tried again
	})
	if err != nil {
		return err
	}
	for _, order := range []string{"4711", "4712"} {
		if _, err := center.Set(ctx, timeout.Task{Topic: "unpaid", ID: order, After: 3 * time.Second}); err != nil {
			return err
		}
	}
	if _, err := center.Remove(ctx, timeout.Key{Topic: "unpaid", ID: "4711"}); err != nil { // it is paid
		return err
	}
	return center.Run(ctx) // until Ctrl-C; it waits for handlers
}
