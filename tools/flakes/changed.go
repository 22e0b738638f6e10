package main

import (
	"bufio"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// lines is a range of changed lines in a file. Lines that are gone are an empty range behind the line before them.
type lines struct{ first, last int }

// changedTests finds the tests that were added or changed since a commit, and those that use a changed helper in a
// test file of their package.
func changedTests(root, base string) ([]test, error) {
	changed, err := changedLines(root, base)
	if err != nil {
		return nil, err
	}
	folders := map[string]bool{}
	for file := range changed {
		folders[filepath.Dir(file)] = true
	}
	var tests []test
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		all, err := declarations(filepath.Join(root, dir))
		if err != nil {
			return nil, err
		}
		pkg, err := gotest.InFolder(root, filepath.ToSlash(dir))
		if err != nil {
			return nil, err
		}
		touched := func(d declaration) bool {
			rel, err := filepath.Rel(root, d.file)
			return err == nil && slices.ContainsFunc(changed[rel], func(l lines) bool { return l.first <= d.last && l.last >= d.first })
		}
		for _, d := range concerned(all, touched) {
			tests = append(tests, test{Package: pkg, name: d.names[0], tags: d.tags})
		}
	}
	return tests, nil
}

// concerned returns the tests that are touched, or use a touched declaration, directly or not.
func concerned(all []declaration, touched func(declaration) bool) (tests []declaration) {
	names, found := map[string]bool{}, make([]bool, len(all))
	for again := true; again; {
		again = false
		for i, d := range all {
			uses := func(name string) bool { return d.uses[name] }
			if found[i] || !touched(d) && !slices.ContainsFunc(slices.Collect(maps.Keys(names)), uses) {
				continue
			}
			found[i], again = true, true
			for _, name := range d.names {
				names[name] = true
			}
		}
	}
	for i, d := range all {
		if found[i] && d.isTest {
			tests = append(tests, d)
		}
	}
	return tests
}

// changedLines returns the changed lines of the test files in the work tree.
func changedLines(root, base string) (map[string][]lines, error) {
	diff, err := command.Output(root, nil, "git", "diff", "--unified=0", "--no-color", "--no-ext-diff", "--diff-filter=d", base, "--", "*_test.go")
	if err != nil {
		return nil, err
	}
	changed, err := parseDiff(diff)
	if err != nil {
		return nil, err
	}
	untracked, err := command.Output(root, nil, "git", "ls-files", "--others", "--exclude-standard", "--", "*_test.go")
	if err != nil {
		return nil, err
	}
	for name := range strings.Lines(untracked) {
		changed[strings.TrimSpace(name)] = []lines{{1, 1 << 30}}
	}
	return changed, nil
}

// parseDiff reads the output of git diff --unified=0: the new names of the files, and the hunks' new lines.
func parseDiff(diff string) (map[string][]lines, error) {
	changed := map[string][]lines{}
	file := ""
	in := bufio.NewScanner(strings.NewReader(diff))
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		line := in.Text()
		if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			file = name
		}
		hunk, ok := strings.CutPrefix(line, "@@ ")
		if !ok {
			continue
		}
		fields := strings.Fields(hunk)
		if len(fields) < 2 {
			return nil, fmt.Errorf("hunk %q, must have two ranges", line)
		}
		first, count, hasCount := strings.Cut(strings.TrimPrefix(fields[1], "+"), ",")
		at, err := strconv.Atoi(first)
		n := 1
		if err == nil && hasCount {
			n, err = strconv.Atoi(count)
		}
		if err != nil {
			return nil, fmt.Errorf("hunk %q: %w", line, err)
		}
		if n == 0 { // between two lines
			changed[file] = append(changed[file], lines{at, at + 1})
			continue
		}
		changed[file] = append(changed[file], lines{at, at + n - 1})
	}
	return changed, in.Err()
}
