package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// element is one of a page, with what is in it.
type element struct {
	name     string
	attrs    map[string]string
	text     string // of it and all in it
	children []*element
}

// readPage reads a page. It must be well-formed and complete in itself.
func readPage(t *testing.T, file string) *element {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	root := parsePage(t, b)
	root.each(func(e *element) {
		require.NotContains(t, []string{"script", "link", "img", "iframe", "object", "a"}, e.name)
		for name, value := range e.attrs {
			require.NotContains(t, []string{"src", "href", "srcset", "onload", "onerror"}, name)
			require.NotContains(t, value, "ZgotmplZ", "what the template did not let through")
		}
	})
	require.NotRegexp(t, `(?i)url\(|@import`, string(b))
	return root
}

func parsePage(t *testing.T, b []byte) *element {
	d := xml.NewDecoder(bytes.NewReader(b))
	stack := []*element{{}}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		top := stack[len(stack)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			top.children = append(top.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			for _, e := range stack {
				e.text += string(token)
			}
		}
	}
	return stack[0]
}

func (e *element) each(f func(*element)) {
	f(e)
	for _, c := range e.children {
		c.each(f)
	}
}

// all returns the elements of a name, and with a class unless it is empty.
func (e *element) all(name, class string) (all []*element) {
	e.each(func(e *element) {
		if e.name == name && (class == "" || slices.Contains(strings.Fields(e.attrs["class"]), class)) {
			all = append(all, e)
		}
	})
	return all
}

func (e *element) verdict() string { return e.all("span", "verdict")[0].text }

// chart returns the figure of a title.
func (e *element) chart(title string) *element {
	for _, f := range e.all("figure", "") {
		if f.all("h3", "")[0].text == title {
			return f
		}
	}
	return nil
}

func TestPageOfARun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.html")
	exit, stdout, stderr := loadWell(t, "-conns", "200", "-silent", "0.25", "-interval", "200ms", "-probes", "5",
		"-timeout", "1200ms", "-tick", "20ms", "-ramp", "1000", "-duration", "3s", "-html", file)
	require.Zero(t, exit, "%s%s", stdout, stderr)
	root := readPage(t, file)
	require.Equal(t, "pass", root.verdict())
	require.Empty(t, root.all("ul", "reasons"))
	require.Contains(t, root.text, "go run ./loadtest -conns=200")
	require.NotContains(t, root.text, file, "which says nothing to others")

	for _, title := range []string{
		"Connections", "Closed by the server, per second", "Round trip of a heartbeat", "Round trip of the probes",
		"Lateness of the closes", "How late the closes were", "Heartbeats per second", "Delay of this program",
		"Resident memory",
	} {
		require.NotNil(t, root.chart(title), title)
	}
	// 3.2 s in intervals of 250 ms, and more on a slow machine.
	hits := len(root.chart("Connections").all("rect", "hit"))
	require.GreaterOrEqual(t, hits, 12)
	require.LessOrEqual(t, hits, maxPoints)
	rows := root.all("table", "")[1].all("tr", "")
	require.Len(t, rows, 1+hits, "and the head")
	require.Len(t, root.chart("Lateness of the closes").all("rect", "hit"), hits)

	var phases []string
	for _, s := range root.chart("Connections").all("rect", "band") {
		phases = append(phases, s.attrs["class"])
	}
	require.Len(t, phases, 3)

	peak := 0
	for _, hit := range root.chart("Connections").all("rect", "hit") {
		open, err := strconv.Atoi(regexp.MustCompile(`open: (\d+)`).FindStringSubmatch(hit.text)[1])
		require.NoError(t, err)
		peak = max(peak, open)
	}
	require.Equal(t, 205, peak)
	require.Contains(t, rows[len(rows)-1].text, "155", "are left at the end")
}

// What the series count is what the result does.
func TestNothingIsLostBetweenTheResultAndTheSeries(t *testing.T) {
	t.Parallel()
	cfg, err := parse(strings.Fields("-html x -conns 60 -silent 0.5 -interval 100ms -timeout 500ms -duration 900ms -probes 0"), io.Discard)
	require.NoError(t, err)
	cfg.addr = misbehave(t, func(c net.Conn, line string, n int) bool {
		pong(c, line)
		_ = c.SetReadDeadline(time.Now().Add(400*time.Millisecond + time.Duration(n%2)*120*time.Millisecond))
		return n < 7
	})
	c, err := newCrew(cfg, plan{workers: 3})
	require.NoError(t, err)
	defer c.dismiss()
	res, err := c.drive(t.Context(), []string{cfg.addr}, newMeter())
	require.NoError(t, err)

	var total point
	var sums [waits]sum
	for i := range res.history.series.bins {
		if b := res.history.series.bins[i].Load(); b != nil {
			total.add(b, &sums)
		}
	}
	points := res.history.points()
	for e := range events {
		var n int64
		for _, p := range points {
			n += p.events[e]
		}
		require.Equal(t, total.events[e], n, "event %d of all points", e)
	}
	require.EqualValues(t, res.established, total.events[opened])
	require.EqualValues(t, res.heartbeats, total.events[sent])
	require.EqualValues(t, res.early, total.events[closedEarly])
	require.EqualValues(t, res.closed-res.early, total.events[closedDue])
	require.EqualValues(t, res.wronglyClosed+res.starved, total.events[closedLive])
	require.Positive(t, res.early)
	require.Positive(t, res.wronglyClosed)
	require.EqualValues(t, total.events[closedDue], sums[lateness].count)
	require.LessOrEqual(t, total.events[answered], total.events[sent])
	require.GreaterOrEqual(t, sums[roundTrip].count, total.events[answered])
	require.InEpsilon(t, res.late.Summary().Max, sums[lateness].quantiles().max, 0.02)
	require.GreaterOrEqual(t, total.events[fellSilent], total.events[silentGone])
	require.Equal(t, res.end, points[len(points)-1].to)
}

func TestPageOfARunThatFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.html")
	addr := misbehave(t, func(c net.Conn, line string, n int) bool { pong(c, line); return n < 3 })
	exit, _, _ := load("-addr", addr, "-conns", "40", "-interval", "100ms", "-timeout", "1s", "-duration", "1500ms", "-html", file)
	require.Equal(t, exitFailure, exit)
	root := readPage(t, file)
	require.Equal(t, "fail", root.verdict())
	require.Contains(t, root.all("ul", "reasons")[0].text, "live connections were closed")
	require.NotEmpty(t, root.all("div", "bad"))
	require.Contains(t, root.chart("Closed by the server, per second").text, "live, wrongly")
}

func TestPageOfARunInWhichNothingHappens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.html")
	exit, _, _ := load("-addr", nobody(t), "-conns", "10", "-timeout", "500ms", "-interval", "100ms", "-tick", "10ms", "-duration", "700ms", "-html", file)
	require.Equal(t, exitFailure, exit)
	root := readPage(t, file)
	require.Equal(t, "fail", root.verdict())
	require.Contains(t, root.text, "connection refused")
	require.Nil(t, root.chart("Lateness of the closes"), "there were none")
}

// What a run has seen until it was interrupted is a page, but no report for others
// to take for a whole one.
func TestPageOfAnInterruptedRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, ramp := range map[string]string{"in the ramp": "1", "after it": "5000"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			addr := misbehave(t, func(c net.Conn, line string, n int) bool {
				pong(c, line)
				if n == 5 {
					cancel()
				}
				return true
			})
			file, report := filepath.Join(dir, ramp+".html"), filepath.Join(dir, ramp+".json")
			var out, errs strings.Builder
			exit := run(ctx, []string{"-addr", addr, "-conns", "5", "-interval", "100ms", "-timeout", "1s", "-ramp", ramp, "-html", file, "-json", report}, &out, &errs)
			require.Equal(t, exitFailure, exit)
			require.Equal(t, "loadtest: interrupted\n", errs.String())
			require.NoFileExists(t, report)
			root := readPage(t, file)
			require.Equal(t, "aborted", root.verdict())
			require.Regexp(t, `after [0-9.]+m?s: interrupted`, root.all("ul", "reasons")[0].text)
			require.NotNil(t, root.chart("Heartbeats per second"))
		})
	}
}

// A page says what it was told, and is not told what to do by it.
func TestHostileStringsAreText(t *testing.T) {
	const evil = `</style></title><script>alert("1")</script>'"><img src=x onerror=alert(1)>{{.}}`
	cfg, err := parse([]string{"-html", "x"}, io.Discard)
	require.NoError(t, err)
	cfg.addr, cfg.given = evil, " -addr="+evil
	res := &result{established: 1, end: time.Second, history: &history{series: newSeries(0), end: time.Second}}
	r := newReport(cfg, plan{}, res, newMeter())
	r.fail("the server said %s", evil)
	r.Machine.CPU = evil
	file := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, r.writeHTML(file, cfg))
	root := readPage(t, file)
	require.Contains(t, root.all("ul", "reasons")[0].text, "the server said "+evil)
	require.Contains(t, root.all("code", "")[0].text, evil)
	require.Contains(t, root.all("title", "")[0].text, evil)
	require.Contains(t, root.all("dl", "")[0].text, evil)
}

func TestFilesThatCanNotBeWrittenAreFoundBeforeTheRun(t *testing.T) {
	dir := t.TempDir()
	page, report := filepath.Join(dir, "p"), filepath.Join(dir, "r")
	nowhere := filepath.Join(dir, "no", "p")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-html", nowhere}, "loadtest: -html: open " + nowhere + ": no such file or directory\n"},
		{[]string{"-html", dir}, "loadtest: -html: open " + dir + ": is a directory\n"},
		{[]string{"-json", dir}, "loadtest: -json: open " + dir + ": is a directory\n"},
		{[]string{"-json", report, "-html", dir}, "loadtest: -html: open " + dir + ": is a directory\n"},
		{[]string{"-json", page, "-html", dir + "/./p"}, "loadtest: -html " + dir + "/./p: must not be the file of -json " + page + "\n"},
	} {
		exit, stdout, stderr := load(append([]string{"-server", "/no/such/file"}, c.args...)...)
		require.Equal(t, exitUsage, exit, c.args)
		require.Empty(t, stdout)
		require.Equal(t, c.want, stderr)
		require.NoFileExists(t, page)
		require.NoFileExists(t, report)
	}

	require.NoError(t, os.WriteFile(report, []byte("old"), 0o600))
	exit, _, _ := load("-json", report, "-html", dir)
	require.Equal(t, exitUsage, exit)
	b, err := os.ReadFile(report)
	require.NoError(t, err)
	require.Equal(t, "old", string(b), "nothing was run that could replace it")

	link := filepath.Join(dir, "stdout")
	require.NoError(t, os.Symlink("/dev/null", link))
	exit, _, _ = load("-server", "/no/such/file", "-html", link)
	require.Equal(t, exitFailure, exit)
	_, err = os.Lstat(link)
	require.NoError(t, err, "a device is not ours to remove")
}
