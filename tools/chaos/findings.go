package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// findings counts how often what failed. Several goroutines may use it at the same time.
type findings struct {
	mu   sync.Mutex
	ran  map[string]int // by package
	what map[string]int // by package and test
}

func (f *findings) runs(pkg string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ran == nil {
		f.ran, f.what = map[string]int{}, map[string]int{}
	}
	f.ran[pkg]++
}

func (f *findings) failed(pkg string, tests []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, test := range tests {
		f.what[pkg+" "+test]++
	}
}

// err has a line for each failed test, or is nil.
func (f *findings) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.what) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("failed:")
	for _, what := range slices.Sorted(maps.Keys(f.what)) {
		pkg, _, _ := strings.Cut(what, " ")
		fmt.Fprintf(&b, "\n  %s: %d of %d runs", what, f.what[what], f.ran[pkg])
	}
	return fmt.Errorf("%s", b.String())
}
