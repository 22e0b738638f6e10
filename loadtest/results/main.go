// Command results makes a page of tables from the reports of load tests.
//
//	go run ./loadtest/results -out loadtest/RESULTS.md loadtest/results/*.json
//
// Reports of the same run are its rounds: a figure is their median, a maximum is the maximum of all, and
// the faults of all are counted.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"

	"github.com/heartwheel-go/heartwheel/internal/figures"
)

func main() {
	out := flag.String("out", "", "`file` to write to (default standard output)")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

func run(out string, files []string) error {
	runs, err := read(files)
	if err != nil {
		return err
	}
	if out == "" {
		_, err = os.Stdout.WriteString(page(runs))
		return err
	}
	return os.WriteFile(out, []byte(page(runs)), 0o644)
}

// rounds are reports of the same run.
type rounds []report

func read(files []string) (runs []rounds, err error) {
	if len(files) == 0 {
		return nil, fmt.Errorf("no reports: give the names of their files")
	}
	byRun := map[settings]rounds{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r report
		if err := json.Unmarshal(b, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if r.Run.Server == "" || r.Verdict == "" || r.Conns.Requested <= r.Run.Probes {
			return nil, fmt.Errorf("%s: no report of loadtest -json: run.server is %q, verdict %q, and conns.requested %d, must be there", file, r.Run.Server, r.Verdict, r.Conns.Requested)
		}
		r.Run.Conns = r.Conns.Requested - r.Run.Probes
		byRun[r.Run] = append(byRun[r.Run], r)
	}
	for _, r := range byRun {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b rounds) int {
		x, y := a[0].Run, b[0].Run
		return cmp.Or(boolean(x.Storm)-boolean(y.Storm), cmp.Compare(x.Conns, y.Conns), boolean(y.Reply)-boolean(x.Reply),
			cmp.Compare(x.order(), y.order()), cmp.Compare(x.IntervalS, y.IntervalS))
	})
	return runs, nil
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// report is what this program reads of what loadtest -json writes.
type report struct {
	Date    string
	Command string
	Machine struct {
		CPU    string
		Cores  int
		Kernel string
		Go     string
		Files  int
	}
	Run   settings
	Conns struct{ Requested, Failed int }

	ConnectPerSecond float64 `json:"connect_per_second"`

	Silent struct {
		Count, Closed, Early, Unclosed int

		LateMs       latency `json:"late_ms"`
		FirstToLastS float64 `json:"first_to_last_s"`
	}
	Live struct {
		Count         int
		WronglyClosed int `json:"wrongly_closed"`
		Heartbeats    int
		RTTMs         latency `json:"rtt_ms"`
	}
	Phases []struct {
		Phase    string
		ProbesMs latency `json:"probes_ms"`
	}
	Server struct {
		BytesPerConn float64 `json:"bytes_per_conn"`
		SteadyCores  float64 `json:"steady_cores"`
	}
	Client struct {
		BytesPerConn float64 `json:"bytes_per_conn"`
		SteadyCores  float64 `json:"steady_cores"`
		OtherCores   float64 `json:"other_cores"`
	}
	Verdict string
	Reasons []string
}

// settings tell runs apart.
type settings struct {
	Conns     int `json:"-"`
	Server    string
	Procs     int
	Workers   int
	IntervalS float64 `json:"interval_s"`
	TimeoutS  float64 `json:"timeout_s"`
	TickMs    float64 `json:"tick_ms"`
	QuantumMs float64 `json:"quantum_ms"`
	Reply     bool
	Probes    int
	Storm     bool
}

func (s settings) order() int { return slices.Index([]string{"heartwheel", "gnet", "net"}, s.Server) }

type latency struct{ P50, P99, Max float64 }

// median returns the median of a figure over the rounds.
func (rs rounds) median(figure func(report) float64) float64 {
	var all []float64
	for _, r := range rs {
		all = append(all, figure(r))
	}
	return figures.Median(all)
}

func (rs rounds) largest(figure func(report) float64) float64 {
	most := figure(rs[0])
	for _, r := range rs[1:] {
		most = max(most, figure(r))
	}
	return most
}

func (rs rounds) sum(figure func(report) int) int {
	n := 0
	for _, r := range rs {
		n += figure(r)
	}
	return n
}

// probes returns the round trips of the probes in a phase.
func (r report) probes(phase string) latency {
	for _, p := range r.Phases {
		if p.Phase == phase {
			return p.ProbesMs
		}
	}
	return latency{}
}
