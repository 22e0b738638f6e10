package pictures

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/internal/figures"
)

// panel is a part of the chart: a bar for each implementation.
type panel struct {
	title, unit string
	bars        []bar
}

type bar struct {
	impl string // as in the results
	name string
	n    float64
}

// bars has the values of some of the results. file is where they come from.
func bars(file string, results map[string]float64, wanted ...bar) ([]bar, error) {
	for i, b := range wanted {
		n, ok := results[b.impl]
		if !ok {
			return nil, fmt.Errorf("%s has no %s", file, b.impl)
		}
		wanted[i].n = n
	}
	return wanted, nil
}

// memory reads what `make load` has written: bytes per connection by server, and the machine.
func memory(root string) (results map[string]float64, machine string, err error) {
	files, err := filepath.Glob(filepath.Join(root, "loadtest/results/100000-*.json"))
	if err != nil {
		return nil, "", err
	}
	rounds := map[string][]float64{}
	for _, file := range files {
		var read struct {
			Machine struct {
				CPU, Go string
				Cores   int
			}
			Run struct {
				Server string
				Storm  bool
			}
			Server struct {
				Bytes float64 `json:"bytes_per_conn"`
			}
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &read)
		}
		if err != nil {
			return nil, "", fmt.Errorf("reading %s: %w", file, err)
		}
		if !read.Run.Storm {
			rounds[read.Run.Server] = append(rounds[read.Run.Server], read.Server.Bytes)
			machine = fmt.Sprintf("%d cores, Go %s", read.Machine.Cores, read.Machine.Go)
		}
	}
	results = map[string]float64{}
	for server, bytes := range rounds {
		results[server] = figures.Median(bytes)
	}
	return results, machine, nil
}

var figure = regexp.MustCompile(`(?m)^\| (\S+) \| ([0-9.]+)`)

// table reads one of the tables that `make bench` has written: the first figure of each implementation.
func table(page, section string) map[string]float64 {
	_, rest, _ := strings.Cut(page, "# "+section+"\n")
	rest, _, _ = strings.Cut(rest, "\n#")
	results := map[string]float64{}
	for _, line := range figure.FindAllStringSubmatch(rest, -1) {
		results[line[1]], _ = strconv.ParseFloat(line[2], 64)
	}
	return results
}

// chart is an SVG of what the benchmarks have measured.
func chart(root string) (string, error) {
	bytes, machine, err := memory(root)
	if err != nil {
		return "", err
	}
	page, err := os.ReadFile(filepath.Join(root, "bench/RESULTS.md"))
	if err != nil {
		return "", err
	}
	cpu, stopped := table(string(page), "CPU"), table(string(page), "Stop")
	for impl := range cpu {
		if impl != "none" { // the loop that sends the heartbeats
			cpu[impl] -= cpu["none"]
		}
	}
	impls := []bar{{impl: "heartwheel", name: "Heartwheel"}, {impl: "time.Timer", name: "time.Timer"}, {impl: "stdlazy", name: "lazy time.Timer"}, {impl: "go-zero", name: "go-zero"}}
	panels := []panel{
		{title: "Processor time per second of the timers of a million connections", unit: " ms"},
		{title: "Memory of a server per connection, of 100,000 connections", unit: " bytes"},
		{title: "Live connections taken for dead after a stop of the process for 2 s, of 1,000"},
	}
	if panels[0].bars, err = bars("CPU in bench/RESULTS.md", cpu, slices.Clone(impls)...); err != nil {
		return "", err
	}
	servers := []bar{{impl: "heartwheel", name: "Heartwheel on gnet"}, {impl: "gnet", name: "gnet alone"}, {impl: "net", name: "a goroutine each"}}
	if panels[1].bars, err = bars("loadtest/results", bytes, servers...); err != nil {
		return "", err
	}
	if panels[2].bars, err = bars("Stop in bench/RESULTS.md", stopped, slices.Clone(impls)...); err != nil {
		return "", err
	}
	return svg(panels, "Shorter is better. "+machine+"; make bench, make load."), nil
}

const style = `text { font: 14px Inter, "Segoe UI", Roboto, system-ui, Arial, sans-serif; fill: #111a2b }
.title { font-weight: 600; font-size: 15px } .dim { fill: #566279; font-size: 12px } .name { text-anchor: end }
.paper { fill: #ffffff; stroke: #e2e7ef } .bar { fill: #aab4c4 } .own { fill: #0c7f7a }
@media (prefers-color-scheme: dark) {
  text { fill: #e9eff8 } .dim { fill: #95a3ba }
  .paper { fill: #111927; stroke: #212d40 } .bar { fill: #4a5a75 } .own { fill: #4fd1c5 }
}`

// svg draws panels below each other, 800 wide.
func svg(panels []panel, note string) string {
	const left, longest, line = 170, 510, 26
	var b strings.Builder
	y := 20
	for _, p := range panels {
		y += 14
		fmt.Fprintf(&b, "<text class=\"title\" x=\"24\" y=\"%d\">%s</text>\n", y, html.EscapeString(p.title))
		y += 14
		most := slices.MaxFunc(p.bars, func(a, b bar) int { return cmp.Compare(a.n, b.n) }).n
		for _, bar := range p.bars {
			class := "bar"
			if bar.impl == "heartwheel" {
				class = "bar own"
			}
			width := max(1, bar.n/most*longest)
			fmt.Fprintf(&b, "<text class=\"name\" x=\"%d\" y=\"%d\">%s</text><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"18\" rx=\"3\"/><text x=\"%.1f\" y=\"%d\">%s%s</text>\n",
				left-10, y+14, html.EscapeString(bar.name), class, left, y, width, left+width+8, y+14, figures.Thousands(int(bar.n+.5)), p.unit)
			y += line
		}
		y += 18
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 %d\" role=\"img\">\n<style>%s</style>\n<rect class=\"paper\" x=\".5\" y=\".5\" width=\"799\" height=\"%d\" rx=\"14\"/>\n%s<text class=\"dim\" x=\"24\" y=\"%d\">%s</text>\n</svg>\n",
		y+24, style, y+23, b.String(), y+6, html.EscapeString(note))
}
