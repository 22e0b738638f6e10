// Command chaos runs tests on a disturbed scheduler, or on a busy machine.
//
//	go run ./chaos -time 10m -pkgs ./wheel/...    each package in turn, with a new seed in each round
//	go run ./chaos -seed 7 -pkgs ./wheel -run '^TestX$'    the same seed until a test fails: repeats a failure
//	go run ./chaos -stress -times 20 -busy 4      each package 20 times, four at once, undisturbed, beside four busy loops
//	go run ./chaos -faults                        how long chaos takes to find each seeded fault
//
// An overlay of the go command inserts calls into the installed Go's library, so that a goroutine yields or
// its thread stops between any two steps: see points.go and disturb.go.txt. The product has no hook for it.
// Logs of failed runs stay in bin/chaos.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

func main() { command.Main("chaos", run) }

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	long := flags.Duration("time", 10*time.Minute, "how long, without compiling; a run that has begun is finished. For -faults: for each fault")
	patterns := flags.String("pkgs", "./...", "folders of packages from the root of the repository, with spaces between them")
	seed := flags.Uint64("seed", 0, "the seed of every round until a test fails; 0 for a new seed in each round")
	only := flags.String("run", "", "only the tests that match, as in go test -run")
	skip := flags.String("skip", "", "not the tests that match, as in go test -skip")
	tags := flags.String("tags", "", "build tags, as in go test -tags: interop adds the tests with other people's programs")
	stop := flags.Duration("stop", 0, "stops of that length, too, at places that few calls reach")
	timeout := flags.Duration("timeout", 10*time.Minute, "the most that one run of a package may take; with -faults no more than a quarter of -time")
	stress := flags.Bool("stress", false, "run undisturbed, but beside busy loops")
	times := flags.Int("times", 4, "with -stress: how often each package runs")
	atOnce := flags.Int("at-once", 4, "with -stress: how many runs of a package go at the same time")
	busy := flags.Int("busy", 4, "with -stress: how many busy loops")
	seek := flags.Bool("faults", false, "seek the seeded faults, or those that are named")
	plain := flags.Bool("plain", false, "with -faults: by plain repetition, to compare")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 && !*seek {
		return fmt.Errorf("argument %q, must be a flag", flags.Arg(0))
	}
	if *stop != 0 && (*stop < time.Millisecond || *stop > time.Minute || *stress) {
		return fmt.Errorf("-stop %v, must be 1ms to 1m, and without -stress", *stop)
	}
	if *seek { // a fault that makes a test hang is found when its run is over
		*timeout = min(*timeout, *long/4)
	}
	w, err := newWorkshop(options{*only, *skip, *tags, *timeout, *stop})
	if err != nil {
		return err
	}
	defer os.RemoveAll(w.dir)
	first := *seed
	if first == 0 {
		first = 1 + rand.Uint64N(1e6)
	}
	if *seek {
		return w.seekFaults(ctx, flags.Args(), first, *long, *plain)
	}
	pkgs, err := gotest.List(strings.Fields(*patterns), *tags)
	if err != nil {
		return err
	}
	if *stress {
		return w.stress(ctx, pkgs, *times, *atOnce, *busy)
	}
	return w.chaos(ctx, pkgs, first, *seed != 0, *long)
}
