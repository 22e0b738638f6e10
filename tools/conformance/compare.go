package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// difference is a meant one: these tests of the control end otherwise when guarded.
type difference struct {
	tests string // regular expression for names of tests: package, dot, test
	count int    // how many tests
	says  string // regular expression for the output of each
	why   string
}

// table is what came of a suite.
type table struct {
	control, guarded counts
	meant            int
	errors           []string
}

// counts are numbers of tests.
type counts struct{ pass, fail, skip int }

func (c counts) String() string { return fmt.Sprintf("%d of %d", c.pass, c.pass+c.fail+c.skip) }

func count(results map[string]result) (c counts) {
	for _, r := range results {
		switch r.action {
		case "pass":
			c.pass++
		case "skip":
			c.skip++
		default:
			c.fail++
		}
	}
	return c
}

// compare requires the same results of guarded tests as of the control, but for the meant
// differences. A missing one is an error, too.
func compare(control, guarded map[string]result, meant []difference) table {
	t := table{control: count(control), guarded: count(guarded)}
	found := make([]int, len(meant))
	names := maps.Clone(control)
	maps.Copy(names, guarded)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := control[name], guarded[name]
		if was.action == is.action {
			continue
		}
		i := slices.IndexFunc(meant, func(d difference) bool {
			return regexp.MustCompile(d.tests).MatchString(name) && regexp.MustCompile(d.says).MatchString(is.output)
		})
		if i < 0 {
			t.errors = append(t.errors, fmt.Sprintf("%s: %s, and in the control %s\n%s", name, named(is), named(was), is.output))
			continue
		}
		found[i]++
		t.meant++
	}
	for i, d := range meant {
		if found[i] != d.count {
			t.errors = append(t.errors, fmt.Sprintf("%d tests %s differ, saying %q, and %d are meant: %s", found[i], d.tests, d.says, d.count, d.why))
		}
	}
	return t
}

func named(r result) string {
	if r.action == "" {
		return "not run"
	}
	return r.action
}
