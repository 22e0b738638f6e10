// Package frameworks compares docs/frameworks.md with the conformance suite. The page has a table
// with a row for each adapter, and nobody writes the rows by hand:
//
//	go test -run Conforms -update ./keepalive
package frameworks

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
)

var writing sync.Mutex // tests of several configs write the same row

var update = flag.Bool("update", false, "write the adapter's row into docs/frameworks.md")

// Check compares the row of an adapter with what adaptertest.Run has returned. framework and
// platforms are its first and its last cell. Check does nothing if a test did not run, or far from
// the page, as in a copy of one module.
func Check(t *testing.T, framework, platforms string, proved []adaptertest.Property) {
	t.Helper()
	page := find("docs/frameworks.md")
	if proved == nil || page == "" {
		return
	}
	writing.Lock()
	defer writing.Unlock()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	want := with(string(text), framework, platforms, proved)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	if want != string(text) {
		t.Errorf("%s is not what the suite finds about %s: run the test with -update", page, framework)
	}
}

// find looks for a file in the folders above, and returns "" if there is none.
func find(name string) string {
	for dir := ".."; len(dir) < 20; dir = filepath.Join("..", dir) {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// with returns the text with an up-to-date row. The table is the one with the row of everything.
func with(text, framework, platforms string, proved []adaptertest.Property) string {
	head, rule, all := []string{"framework"}, []string{"---"}, []string{everything}
	row := []string{framework}
	for _, group := range groups(proved) {
		head, rule = append(head, group[0].Group), append(rule, "---")
		all, row = append(all, names(group)), append(row, summary(group))
	}
	top := line(append(head, "platforms")) + line(append(rule, "---")) + line(append(all, ""))
	before, rows, after := cut(text)
	written := line(append(row, platforms))
	i := slices.IndexFunc(rows, func(row string) bool { return strings.HasPrefix(row, "| "+framework+" |") })
	if i < 0 {
		rows = append(rows, written)
	} else {
		rows[i] = written
	}
	return before + top + strings.Join(rows, "") + after
}

const everything = "everything"

// cut returns the rows of the adapters, and the text around the table.
func cut(text string) (before string, rows []string, after string) {
	lines := slices.Collect(strings.Lines(text))
	begin := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "| "+everything+" |") })
	if begin < 2 {
		return text + "\n", nil, ""
	}
	end := begin
	for end < len(lines) && strings.HasPrefix(lines[end], "|") {
		end++
	}
	return strings.Join(lines[:begin-2], ""), lines[begin+1 : end], strings.Join(lines[end:], "")
}

// groups splits the properties, which are in the order of their groups.
func groups(proved []adaptertest.Property) (all [][]adaptertest.Property) {
	for i, p := range proved {
		if i == 0 || proved[i-1].Group != p.Group {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], p)
	}
	return all
}

func names(group []adaptertest.Property) string {
	var all []string
	for _, p := range group {
		all = append(all, p.Name)
	}
	return strings.Join(all, ", ")
}

// summary says what of a group an adapter has.
func summary(group []adaptertest.Property) string {
	lacks := slices.DeleteFunc(slices.Clone(group), func(p adaptertest.Property) bool { return p.Has })
	switch {
	case len(lacks) == 0:
		return "yes"
	case len(lacks) == len(group):
		return "**no**"
	}
	return "all but " + names(lacks)
}

func line(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
