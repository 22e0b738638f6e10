package main

import (
	"fmt"
	"os/exec"
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
	"bench.Touch":                       "Moving a deadline forward through a handle, ns per touch. A connection is touched more than once within a tick. With order=random, connections speak in another order than they were opened in, so that at a million their memory is cold.",
	"bench.TouchNewTick":                "The same where no connection is touched twice within a tick.",
	"bench.TouchParallel":               "The same by as many goroutines as there are processors, ns per touch of all together: half of it where two do twice the work.",
	"bench.Move":                        "Moving a deadline forward by its key, ns.",
	"bench.Set":                         "Replacing the deadline of a key, ns.",
	"bench.Churn":                       "A connection goes and another comes, among 100,000: ns for both.",
	"keepalive.Touch":                   "keepalive.Touch(conn) of a net.Conn, everything included; keeper is the method of Keeper.",
	"keepalive-gnetkeepalive.Touch":     "keepalive.Touch(conn) of a gnet.Conn, everything included.",
	"bench.EchoGnet":                    "The same on gnet, one event loop and 4000 connections for each server: bare, with a Keeper, and with one that is touched for each message.",
	"keepalive.Read":                    "Reading a byte that waits in a socket of TCP, ns, by what counts as life; none is the bare connection.",
	"keepalive.ReadAdds":                "The same without the system call.",
	"keepalive.Ask":                     "What activity=kernel does once per timeout and connection instead: asking the socket, ns.",
	"keepalive-gnetkeepalive.OnTraffic": "What a message on gnet takes whose handler does nothing, ns, by what counts as life.",
	"wheel.Tick":                        "What the hand does. idle: a tick with nothing due, ns/op; refile: filing again what was moved, ns for each; long: a tick among a million deadlines, half of 30 s and half of seven days.",
	"bench.Memory":                      "Heap bytes and objects per live deadline, of a million, and milliseconds that they add to a garbage collection. The value that is handed over, 8 bytes, is in it; the caller's handle or key is not.",
	"bench.MassExpiry":                  "A million deadlines in the same moment: milliseconds from it to the last that was handed over, from the first to the last, goroutines at the most, and how late a deadline was that was due 300 ms later. Negative is early.",
	"bench.Blocked":                     "Ten deadlines at once whose functions block for 300 ms: how late the last of them began, and one that was due 200 ms later.",
	"bench.Drift":                       "A deadline of 3 s with a tick of 10ms, all processors busy and the garbage collector running: seconds after which it fired.",
	"bench.Stop":                        "A process stopped for 2 s, with 1000 connections that speak ten times a second and a timeout of 1 s: how many of them were taken for dead.",
	"bench.Accuracy":                    "100,000 deadlines of 1 to 3 s: share that fired early, by how much at the most, and how late the others were. busy: all processors occupied and the garbage collector running.",
	"bench.Echo":                        "An echo server over net, 16 connections with a goroutine each, beside itself with k.Listener(ln), and with SetReadDeadline before every read: nanoseconds and the server's processor time per message of 64 bytes, and how many times as much as bare. The servers take turns of a few ms. pipeline is how many messages of a connection are under way at once.",
	"bench.CPU":                         "A million connections, a heartbeat each every 10 s, timeout 30 s: milliseconds of processor time per second. impl=none is the loop that sends the heartbeats, and is in all of them.",
}

func (p *page) text() string {
	var b strings.Builder
	command := "make bench"
	if p.quick {
		command = "make bench-quick"
	}
	fmt.Fprintf(&b, "# Results\n\n`%s`, %s, %s, Go %s, %s/%s, GOMAXPROCS %d, %s.\n", command, time.Now().Format(time.DateOnly),
		p.results.cpu, goVersion(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), p.took.Round(time.Second))
	fmt.Fprintf(&b, "Medians. In brackets: how many times as much as heartwheel. Written by `bench/report`.\n")
	p.summary(&b)
	for _, name := range p.results.order {
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
	fmt.Fprint(b, "\nstdlazy is a time.Timer that starts itself again when it fires, if it was moved; flatsweep an array of deadlines that is swept in each tick.\n")
}

// versions lists the modules of the benchmarks: the peers, and libraries.
func versions(b *strings.Builder) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not (or .Main .Indirect .Replace)}}{{.Path}} {{.Version}}{{end}}", "all").Output()
	if err != nil {
		return
	}
	fmt.Fprint(b, "\n## Versions\n\n")
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if line != "" && !strings.HasPrefix(line, "golang.org/x/perf") && !strings.Contains(line, "testify") {
			fmt.Fprintf(b, "- %s\n", line)
		}
	}
}

// tables writes one table with a column per configuration if there is one unit, and else one table per
// configuration with a column per unit.
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
