package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// page is the whole report.
type page struct {
	results *results
	quick   bool
	took    time.Duration
}

// about says what each benchmark is, and what its figures mean.
var about = map[string]string{
	"bench.Touch":                       "Moving a deadline through a handle, ns, more than once within a tick. order=random: not in the order of their opening, so at a million their memory is cold.",
	"bench.TouchNewTick":                "The same, at most once within a tick.",
	"bench.TouchParallel":               "The same by a goroutine for each processor, ns per touch.",
	"bench.Move":                        "Moving a deadline by its key, ns.",
	"bench.Set":                         "Replacing the deadline of a key, ns.",
	"bench.Churn":                       "A connection goes and another comes, among 100,000: ns for both.",
	"keepalive.Touch":                   "keepalive.Touch(conn) of a net.Conn, ns.",
	"keepalive-gnetkeepalive.Touch":     "keepalive.Touch(conn) of a gnet.Conn, ns.",
	"bench.EchoGnet":                    "The same on gnet, one event loop and 4000 connections: bare, with a Keeper, and touched for each message.",
	"keepalive.Read":                    "Reading a waiting byte from TCP, ns, by what counts as life; none is the bare connection.",
	"keepalive.ReadAdds":                "The same without the system call.",
	"keepalive.Ask":                     "Asking the socket, as activity=kernel does once per timeout, ns.",
	"keepalive-gnetkeepalive.OnTraffic": "A message on gnet whose handler does nothing, ns, by what counts as life.",
	"wheel.Tick":                        "ns. idle: a tick with nothing due; refile: filing a moved timer again; long: a tick among deadlines of 30 s and of seven days.",
	"bench.Memory":                      "Heap bytes and objects per deadline, of a million, with a value of 8 bytes, and the milliseconds added to a garbage collection.",
	"bench.MassExpiry":                  "A million deadlines in the same moment, goroutines at the most, and how late a deadline 300 ms later was. Negative is early.",
	"bench.Blocked":                     "Ten deadlines at once whose functions block for 300 ms: how late the last one began, and one due 200 ms later.",
	"bench.Drift":                       "A deadline of 3 s, all processors busy and the garbage collector running: the seconds until it fired.",
	"bench.Stop":                        "A process stopped for 2 s, with 1000 connections that speak ten times a second, timeout 1 s: how many were taken for dead.",
	"bench.Accuracy":                    "100,000 deadlines of 1 to 3 s: the share that fired early, by how much at most, and how late the others were. None was lost, unless there is a column. busy: all processors, and the garbage collector.",
	"bench.Echo":                        "An echo server over net, 16 connections: bare, with k.Listener(ln), and with SetReadDeadline before every read. Time and the server's processor time per message of 64 bytes. pipeline: messages of a connection under way at once.",
	"bench.CPU":                         "A million connections, a heartbeat every 10 s, timeout 30 s: milliseconds of processor time per second. none, the loop that sends the heartbeats, is in all.",
}

func (p *page) text() string {
	var b strings.Builder
	command := "make bench"
	if p.quick {
		command = "make bench-quick"
	}
	fmt.Fprintf(&b, "# Results\n\n`%s`, %s, %s, Go %s, %s/%s, GOMAXPROCS %d, %s.\n", command, time.Now().Format(time.DateOnly),
		p.results.cpu, goVersion(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), p.took.Round(time.Second))
	fmt.Fprintf(&b, "Medians; in brackets: how many times as much as heartwheel. Compare columns, not days. Written by `bench/report`.\n")
	p.summary(&b)
	for _, name := range p.results.order {
		if name == "bench.Drift" {
			continue // a target, and nearly the same for all
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", strings.TrimPrefix(name, "bench."), about[name])
		p.results.benches[name].tables(&b)
	}
	if !p.quick {
		p.distances(&b)
		p.targets(&b)
		versions(&b)
	}
	return b.String()
}

// summary is the table to begin with: the figures for which somebody takes a wheel, or does not.
func (p *page) summary(b *strings.Builder) {
	impls := []string{"heartwheel", "time.Timer", "stdlazy", "flatsweep", "go-zero"}
	fmt.Fprintf(b, "\n| | %s |\n|---|%s\n", strings.Join(impls, " | "), strings.Repeat("---:|", len(impls)))
	for _, row := range []struct{ what, bench, config, unit string }{
		{"a touch, 10,000 connections, ns", "Touch", "conns=10000 order=random", "ns/op"},
		{"a touch, a million connections, ns", "Touch", "conns=1000000 order=random", "ns/op"},
		{"a move by key, 10,000 keys, ns", "Move", "conns=10000 order=random", "ns/op"},
		{"processor time, a million connections, ms/s", "CPU", "conns=1000000", "CPU-ms/s"},
		{"heap per timer, a million timers, B", "Memory", "conns=1000000", "B/timer"},
		{"fired early, %", "Accuracy", "tick=10ms load=idle", "early-%"},
		{"live ones expired after a stop of 2 s, of 1,000", "Stop", "", "live-expired"},
	} {
		fmt.Fprintf(b, "| %s |", row.what)
		base, _ := p.results.get(row.bench, "none", row.config, row.unit)
		for _, impl := range impls {
			if row.bench == "Move" && impl == "heartwheel" {
				impl = "heartwheel-keyed"
			}
			if v, ok := p.results.get(row.bench, impl, row.config, row.unit); ok {
				fmt.Fprintf(b, " %s", figure(v-base))
			}
			fmt.Fprint(b, " |")
		}
		fmt.Fprintln(b)
	}
	fmt.Fprint(b, "\nstdlazy is a time.Timer that starts itself again if it was moved; flatsweep an array of deadlines, swept in each tick.\n")
}

// required is a requirement of a go.mod.
var required = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`)

// versions lists the modules of the benchmarks: the peers, and libraries. The workspace has many more.
func versions(b *strings.Builder) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return
	}
	var modules []string
	for _, m := range required.FindAllStringSubmatch(string(text), -1) { // with // indirect it does not match
		if path := m[1]; !strings.HasPrefix(path, "github.com/heartwheel-go/") && path != "golang.org/x/perf" && !strings.Contains(path, "testify") {
			modules = append(modules, path+"@"+m[2])
		}
	}
	fmt.Fprintf(b, "\n## Versions\n\n%s\n", strings.Join(modules, ", "))
}

// tables writes one table with a column per configuration if there is one unit, and else one table per
// configuration with a column per unit, unless it is zero.
func (bn *bench) tables(b *strings.Builder) {
	units := slices.DeleteFunc(slices.Clone(bn.units), func(u string) bool { return u == "B/op" || u == "allocs/op" })
	if len(units) == 1 {
		var columns []column
		for _, c := range bn.configs {
			columns = append(columns, column{title: orUnit(c, units[0]), config: c, unit: units[0]})
		}
		if slices.Contains(bn.units, "allocs/op") {
			columns = append(columns, column{title: "allocs", config: bn.configs[0], unit: "allocs/op"})
		}
		bn.table(b, columns)
		return
	}
	units = slices.DeleteFunc(units, bn.isZero)
	for _, c := range bn.configs {
		var columns []column
		for _, u := range units {
			columns = append(columns, column{title: u, config: c, unit: u})
		}
		if c != "" && len(bn.configs) > 1 {
			fmt.Fprintf(b, "\n%s:\n", c)
		}
		bn.table(b, columns)
	}
}

// isZero reports whether all figures of a unit are zero: they need no column.
func (bn *bench) isZero(unit string) bool {
	for c := range bn.values {
		if v, ok := bn.median(c); ok && c.unit == unit && v != 0 {
			return false
		}
	}
	return true
}

func orUnit(config, unit string) string {
	if config == "" {
		return unit
	}
	return config
}

type column struct{ title, config, unit string }

func (bn *bench) table(b *strings.Builder, columns []column) {
	fmt.Fprint(b, "\n| impl |")
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c.title)
	}
	fmt.Fprint(b, "\n|---|", strings.Repeat("---:|", len(columns)), "\n")
	for _, impl := range bn.impls {
		row, measured := "| "+impl+" |", false
		for _, c := range columns {
			v, ok := bn.median(cell{impl, c.config, c.unit})
			if !ok {
				row += " |"
				continue
			}
			measured = true
			row += " " + figure(v)
			if ours, ok := bn.median(cell{"heartwheel", c.config, c.unit}); ok && impl != "heartwheel" && ours > 0 && v > 0 && c.unit == "ns/op" {
				row += fmt.Sprintf(" (%sx)", figure(v/ours))
			}
			row += " |"
		}
		if measured {
			fmt.Fprintln(b, row)
		}
	}
}

// figure writes a number with three significant digits.
func figure(v float64) string {
	switch a := max(v, -v); {
	case a == 0:
		return "0"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
