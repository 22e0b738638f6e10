// Command flakes runs single tests many times, with the race detector, on one, two and four processors, half of the
// runs beside two busy loops.
//
//	go run ./flakes -base origin/main    each test added or changed since that commit, 200 times
//	go run ./flakes -time 30m            tests at random, those with the fewest runs so far first
//
// It remembers the runs of the second kind in bin/flakes/runs.json, so some nights get through all tests. Logs of failed
// runs stay in bin/flakes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

func main() { command.Main("flakes", run) }

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("flakes", flag.ContinueOnError)
	base := flags.String("base", "", "run the tests that were added or changed since this commit, in the work tree, too")
	long := flags.Duration("time", 9*time.Minute, "how long, without compiling; a run that has begun is finished")
	times := flags.Int("times", 200, "how often each test runs, if the time allows it")
	patterns := flags.String("pkgs", "./...", "folders of packages from the root of the repository, with spaces between them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("argument %q, must be a flag", flags.Arg(0))
	case *times < 1:
		return fmt.Errorf("-times %d, must be at least 1", *times)
	case *long < time.Second:
		return fmt.Errorf("-time %v, must be at least 1s", *long)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	r, err := newRunner(root, *times)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	if *base != "" {
		tests, err := changedTests(root, *base)
		if err != nil {
			return err
		}
		return r.fresh(ctx, tests, *long)
	}
	n := &night{runner: r, file: filepath.Join(r.logs, "runs.json"), runs: map[string]record{}}
	return n.run(ctx, strings.Fields(*patterns), *long)
}

// failure is the error of a run with failed tests. Their names are printed already.
func failure(failed int) error {
	if failed == 0 {
		return nil
	}
	return errors.New(plural(failed, "test") + " failed")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
