// Command webhooks tells subscribers of changed objects. Of several changes within a second a subscriber hears once. The
// change, the task that tells of it, and the end of that task are all in the program's own transactions on PostgreSQL.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Getenv("DATABASE_URL"), "127.0.0.1:8090"); err != nil {
		log.Fatal(err)
	}
}

const tables = `
	CREATE TABLE IF NOT EXISTS objects (id text PRIMARY KEY, hook text NOT NULL, changes int NOT NULL DEFAULT 1);
	CREATE TABLE IF NOT EXISTS told (id text, version bigint, changes int NOT NULL)`

type app struct {
	db    *pgxpool.Pool
	store *postgres.Engine
}

func run(ctx context.Context, database, addr string) error {
	db, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := postgres.Open(ctx, database, postgres.Config{}) // with connections of its own: handlers may hold all of db's
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := db.Exec(ctx, tables); err != nil {
		return err
	}
	a := &app{db, store}
	center, err := timeout.New(store, timeout.Config{})
	if err != nil {
		return err
	}
	defer center.Close()
	if err := center.Handle("hooks", a.tell); err != nil {
		return err
	}
	if _, err := center.SetTopic(ctx, timeout.Topic{Name: "hooks", Lease: 5 * time.Second, Timeout: 30 * time.Second}); err != nil { // SetTx makes none
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	log.Println("listening at", listener.Addr())
	http.HandleFunc("PUT /objects/{id}", a.change)
	go func() { log.Println(http.Serve(listener, nil)) }()
	return center.Run(ctx)
}

// change counts a change of an object, and has its subscriber told in a second. So a later change puts that off.
func (a *app) change(w http.ResponseWriter, r *http.Request) {
	id, hook := r.PathValue("id"), r.FormValue("hook")
	retries, _ := strconv.Atoi(r.FormValue("retries")) // 0 is as often as usual
	task := timeout.Task{Topic: "hooks", ID: id, After: time.Second, Options: timeout.Options{Retries: retries}}
	err := pgx.BeginFunc(r.Context(), a.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(r.Context(), `INSERT INTO objects VALUES ($1, $2)
			ON CONFLICT (id) DO UPDATE SET hook = $2, changes = objects.changes + 1`, id, hook)
		if err != nil {
			return err
		}
		answers, err := a.store.SetTx(r.Context(), tx, []timeout.Task{task})
		if err != nil {
			return err
		}
		return answers[0].Err
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// tell tells the subscriber of an object, and notes it in the same transaction in which its task ends.
func (a *app) tell(ctx context.Context, task timeout.Task) error {
	var hook string
	var changes int
	if err := a.db.QueryRow(ctx, "SELECT hook, changes FROM objects WHERE id = $1", task.ID).Scan(&hook, &changes); err != nil {
		return err
	}
	query := url.Values{"id": {task.ID}, "changes": {strconv.Itoa(changes)}}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, hook+"?"+query.Encode(), nil)
	if err != nil {
		return timeout.Permanent(err)
	}
	answer, err := http.DefaultClient.Do(call)
	if err != nil {
		return err
	}
	if answer.Body.Close(); answer.StatusCode >= 300 {
		return fmt.Errorf("subscriber of %s answered %s", task.ID, answer.Status)
	}
	return pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO told VALUES ($1, $2, $3)", task.ID, task.Version, changes); err != nil {
			return err
		}
		return a.store.DoneTx(ctx, tx)
	})
}
