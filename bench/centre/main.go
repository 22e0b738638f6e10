// Command center compares timeout centers: this project's on Redis, PostgreSQL and SQLite,
// asynq on the same Redis and river on the same PostgreSQL, in turns, in one run.
//
//	cd bench && go run ./centre -rounds 3
//	cd bench && go run ./centre -rounds 1 -only 'Idle topics'
//	cd bench && go run ./centre -rounds 1 -only 'Moves to a later time'
//	cd bench && go run ./centre -rounds 1 -only 'Redis Cluster'
//
// It starts redis-server, without persistence, alone and three of them as a Cluster, and postgres, with
// its defaults, and ends them.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

var (
	rounds     = flag.Int("rounds", 3, "how often each measurement is made, in turns")
	tasks      = flag.Int("tasks", 100_000, "how many tasks are scheduled, and due at once")
	idleTopics = flag.Int("idle-topics", 256, "how many idle topics there are")
	only       = flag.String("only", "", "part of the names of the measurements to make")
	steady     = flag.Duration("steady", 10*time.Second, "how long the steady load lasts")
	rate       = flag.Int("rate", 10_000, "tasks per second of the steady load")
	drain      = flag.Int("drain", 1_000_000, "how many tasks are pending for the longest script")
	moves      = flag.Int("moves", 1_000_000, "how many moves there are, of 10,000 tasks")
	idle       = flag.Duration("idle", 30*time.Second, "how long idle topics are looked at")
	dead       = flag.Duration("dead", 10*time.Second, "how long a master is dead")
	prof       = flag.String("profile", "", "a file for a CPU profile of this process")
	out        = flag.String("out", "", "a file for the table, besides standard output")
)

func main() {
	flag.Parse()
	goredis.SetLogger(silent{}) // servers are killed here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func run(ctx context.Context) error {
	servers, err := startServers()
	if err != nil {
		return err
	}
	defer servers.stop()
	if *prof != "" {
		file, err := os.Create(*prof)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	table, err := measureAll(ctx, measurements(servers), *rounds)
	if err != nil {
		return err
	}
	w := io.Writer(os.Stdout)
	if *out != "" {
		file, err := os.Create(*out)
		if err != nil {
			return err
		}
		defer file.Close()
		w = io.MultiWriter(w, file)
	}
	fmt.Fprintf(w, "%s, %d processors, %s, %s. `cd bench && go run ./centre %s`\n\n", time.Now().Format(time.DateOnly),
		runtime.NumCPU(), runtime.Version(), strings.Join(servers.versions, ", "), strings.Join(os.Args[1:], " "))
	return table.write(w)
}
