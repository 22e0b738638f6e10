package main

import (
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

var fates = [...]string{killed: "killed", timedOut: "timed out", lived: "lived", notReached: "not reached", notCompiled: "not compiled"}

// String is a line: the fate, the place, the change, and the tests.
func (r result) String() string {
	line := fmt.Sprintf("%-12s %s", fates[r.fate], r.change())
	switch {
	case r.once:
		line += "  (failed once: " + strings.Join(r.by, " ") + ")"
	case r.fate == killed:
		line += "  (" + strings.Join(r.by, " ") + ")"
	}
	return line
}

// change is the place and the change, without spaces in a row.
func (r result) change() string {
	file := path.Join(r.pkg, filepath.Base(r.file))
	return strings.Join(strings.Fields(fmt.Sprintf("%s:%d:%d %s -> %s", file, r.line, r.column, short(r.old), short(r.new))), " ")
}

// alive finds the unnoticed changes in the output of a run.
func alive(output string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(output) {
		for _, fate := range []fate{lived, notReached} {
			if change, ok := strings.CutPrefix(line, fates[fate]+" "); ok {
				change, _, _ = strings.Cut(change, "  (failed once")
				found[strings.Join(strings.Fields(change), " ")] = true
			}
		}
	}
	return found
}

func short(text string) string {
	if len(text) > 100 {
		text = text[:100] + "..."
	}
	return text
}

// report says what lived, and the share of killed ones by package. Changes that were not compiled
// have a column, and no share.
func report(w io.Writer, all []result) {
	var pkgs []string
	counts := map[string]*[len(fates)]int{}
	for _, r := range all {
		if counts[r.pkg] == nil {
			counts[r.pkg] = &[len(fates)]int{}
			pkgs = append(pkgs, r.pkg)
		}
		counts[r.pkg][r.fate]++
	}
	for _, fate := range []fate{notReached, lived} {
		of := slices.DeleteFunc(slices.Clone(all), func(r result) bool { return r.fate != fate })
		if len(of) > 0 {
			fmt.Fprintf(w, "\n%s: %d\n", fates[fate], len(of))
		}
		for _, r := range of {
			fmt.Fprintln(w, r)
		}
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\tmutants\tkilled\ttimed out\tlived\tnot reached\tshare killed\tnot compiled")
	for _, p := range pkgs {
		c := counts[p]
		dead := c[killed] + c[timedOut]
		all := dead + c[lived] + c[notReached]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f %%\t%d\n", p, all, c[killed], c[timedOut], c[lived], c[notReached],
			100*float64(dead)/float64(max(all, 1)), c[notCompiled])
	}
	_ = table.Flush()
}
