// Command mutate changes Go code, a small change at a time, and lists those unnoticed by all tests.
//
//	go run ./mutate -pkgs "./wheel ./pool"
//	go run ./mutate -pkgs ./keepalive/internal/rules -tests "./keepalive/internal/rules ./keepalive"
//
// A change is a mutant: see mutants.go. All mutants of a package are compiled into it at once, by an overlay of
// the go command, and a variable of the environment switches on one of them. No file of the tree is touched. Each
// test runs alone once, for its time and its mutants. A mutant then meets these tests, the
// quickest first, until one fails. A failed or slow test runs once more: a busy machine must kill no mutant.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

func main() { command.Main("mutate", run) }

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	patterns := flags.String("pkgs", "", "folders of packages to mutate, from the root of the repository, with spaces between them")
	others := flags.String("tests", "", "folders of packages with the tests to run, in this order; by default those of the mutated package")
	only := flags.String("files", "", "only files whose name contains one of these, with spaces between them")
	again := flags.String("again", "", "only mutants that lived, or met no test, by the output of an earlier run in this file")
	tests := flags.String("run", "", "only tests whose name matches")
	most := flags.Duration("most", 15*time.Second, "leave out tests longer than this when run alone")
	jobs := flags.Int("jobs", runtime.NumCPU(), "how many mutants at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *patterns == "" || *jobs < 1 {
		return fmt.Errorf("arguments %q with -pkgs %q and -jobs %d, must be flags with a package and a job", flags.Args(), *patterns, *jobs)
	}
	pkgs, err := gotest.List(strings.Fields(*patterns), "")
	if err != nil {
		return err
	}
	b, err := newBench(*most, *jobs, strings.Fields(*only))
	if err != nil {
		return err
	}
	if b.run, err = regexp.Compile(*tests); err != nil {
		return err
	}
	if *again != "" {
		text, err := os.ReadFile(*again)
		if err != nil {
			return err
		}
		b.again = alive(string(text))
	}
	defer os.RemoveAll(b.dir)
	var all []result
	for _, p := range pkgs {
		with := []gotest.Package{p}
		if *others != "" {
			if with, err = gotest.List(strings.Fields(*others), ""); err != nil {
				return err
			}
		}
		results, err := b.mutate(ctx, p, with)
		all = append(all, results...)
		if err != nil {
			report(os.Stdout, all)
			return err
		}
	}
	report(os.Stdout, all)
	return nil
}
