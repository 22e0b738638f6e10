// Command house prints how large the core and the timeout center are, beside their budgets.
//
//	go run ./house           the table
//	go run ./house -check    the same, and exit with 1 if a budget is exceeded
//	go run ./house -v        with the functions of each trip, by file
//
// The legend below the table says what is counted. The program in trip.go makes the trips.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

func main() { command.Main("house", run) }

// legend says what is counted.
const legend = `
Lines are all lines of the Go files for all platforms, with comments and blank lines, without tests and without folders
of test helpers, such as latetest.
Names are exported names, and exported methods of exported types, by the type checker, for this platform. Methods
of another package's type don't count for its alias.
Functions are this project's functions that run for one connection, guarded with a Timeout alone, in most of %d rounds,
by the compiler's coverage counters. A function literal is a part of the function around it. A heartbeat is one byte,
until the server waits for the next one. An expiry is the rest of a silence, until the connection is closed and the
Keeper is at rest, less the functions that the wheel's hand runs in any silence.
`

// figure is a row of the table.
type figure struct {
	name  string
	most  int // its budget, or 0 for none
	count func(h house) (counted, error)
}

// house is a tree with both.
type house struct {
	root string
	dir  string // temporary
	trip string // the program in trip.go
}

// counted is what a figure is.
type counted struct {
	n    int
	of   string // what it is made of, or ""
	long string // the same at length, or ""
}

// figures are all figures with their budgets.
var figures = []figure{
	{"lines of wheel, without the explorer", 2450, linesOf("wheel/...", "!wheel/internal/explore")},
	{"lines of pool", 380, linesOf("pool/...")},
	{"lines of keepalive, and of its internal packages but rules", 3450, linesOf("keepalive", "keepalive/internal/...", "!keepalive/internal/rules")},
	{"files of keepalive", 24, filesOf("keepalive")},
	{"lines of keepalive/internal/rules", 1150, linesOf("keepalive/internal/rules/...")},
	{"lines of adapter and gnetkeepalive", 800, linesOf("keepalive/adapter/...", "keepalive/gnetkeepalive/...")},
	{"names of keepalive, wheel and pool", 130, namesOf("./keepalive", "./wheel", "./pool")},
	{"functions of an expiry on net", 85, tripOf("net", "expiry", "silence")},
	{"functions of a heartbeat on net", 9, tripOf("net", "heartbeat", "")},
	{"functions of an expiry on gnet", 0, tripOf("gnet", "expiry", "silence")},
	{"functions of a heartbeat on gnet", 0, tripOf("gnet", "heartbeat", "")},
	{"lines of timeout, without its suites", 19500, linesOf("timeout/...")},
	{"lines of timeout/redis", 2900, linesOf("timeout/redis/...")},
	{"lines of its Lua", 800, linesIn(".lua", "timeout/redis/...")},
	{"lines of timeout/memory, timeout/sqlite and what they share", 2700, linesOf("timeout/memory/...", "timeout/sqlite/...")},
	{"lines of timeout/sharded and timeout/index", 2600, linesOf("timeout/sharded/...", "timeout/index/...")},
	{"lines of timeout alone", 3900, linesOf("timeout")},
	{"lines of cmd/timeoutd", 4500, linesOf("cmd/timeoutd/...")},
	{"lines of go doc -short ./timeout", 33, outlineOf("timeout")},
}

func run(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("house", flag.ContinueOnError)
	check := flags.Bool("check", false, "fail if a budget is exceeded")
	long := flags.Bool("v", false, "list the functions of each trip, by file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("argument %q, must be a flag", flags.Arg(0))
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "house-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	h := house{root: root, dir: dir, trip: filepath.Join(dir, "trip")}
	if err := h.build(); err != nil {
		return err
	}
	counts := make([]counted, len(figures))
	var all errgroup.Group
	for i, f := range figures {
		all.Go(func() (err error) {
			counts[i], err = f.count(h)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	over := report(os.Stdout, figures, counts, *long)
	if *check && over > 0 {
		return fmt.Errorf("%d of the budgets exceeded", over)
	}
	return nil
}

// report prints the table, and returns how many budgets are exceeded.
func report(w io.Writer, figures []figure, counts []counted, long bool) (over int) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "figure\tnow\tat most\t\tof")
	for i, f := range figures {
		most, mark := "", ""
		if f.most > 0 {
			most = fmt.Sprint(f.most)
		}
		if f.most > 0 && counts[i].n > f.most {
			mark = fmt.Sprintf("%d over", counts[i].n-f.most)
			over++
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", f.name, counts[i].n, most, mark, counts[i].of)
	}
	_ = table.Flush()
	fmt.Fprintf(w, legend, rounds)
	for i, f := range figures {
		if long && counts[i].long != "" {
			fmt.Fprintf(w, "\n%s:\n%s", f.name, counts[i].long)
		}
	}
	return over
}
