package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// module is the first one, and the beginning of the others' names.
const module = "github.com/heartwheel-go/heartwheel/"

// rounds is how often each trip is made. What a busy machine adds to one of them, or saves, is not in most.
const rounds = 5

// function is a declared function. The trace leaves out the receivers of generic types: only the line tells such methods apart.
type function struct {
	file string // from the root of the repository
	line int
	name string
}

// tripOf counts the functions of a trip, less those of another.
func tripOf(engine, trip, less string) func(house) (counted, error) {
	return func(h house) (counted, error) {
		ran, err := h.travel(engine, trip, rounds)
		if err != nil || less == "" {
			return listed(ran), err
		}
		always, err := h.travel(engine, less, rounds)
		return listed(slices.DeleteFunc(ran, func(f function) bool { return slices.Contains(always, f) })), err
	}
}

// build builds the program in trip.go. It is no package of this module, which does not depend on gnet.
func (h house) build() error {
	const file = "tools/house/trip.go"
	_, err := command.Output(h.root, nil, gotest.GoCommand(), "build", "-cover", "-covermode=atomic",
		"-coverpkg="+module+"...,command-line-arguments", "-o", h.trip, file)
	return err
}

// travel makes a trip some times, and returns the functions that ran in most of them, in order.
func (h house) travel(engine, trip string, times int) ([]function, error) {
	args := []string{engine, trip}
	for i := range times {
		dir := filepath.Join(h.dir, fmt.Sprint(engine, "-", trip, "-", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		args = append(args, dir)
	}
	if _, err := command.Output(h.root, nil, h.trip, args...); err != nil {
		return nil, err
	}
	ran := map[function]int{}
	for _, dir := range args[2:] {
		out, err := command.Output(h.root, nil, gotest.GoCommand(), "tool", "covdata", "func", "-i="+dir)
		if err != nil {
			return nil, err
		}
		all, err := parse(out)
		if err != nil {
			return nil, err
		}
		for _, f := range all {
			ran[f]++
		}
	}
	maps.DeleteFunc(ran, func(_ function, n int) bool { return 2*n < times })
	if len(ran) == 0 {
		return nil, fmt.Errorf("%s %s: no function ran", engine, trip)
	}
	return slices.SortedFunc(maps.Keys(ran), func(a, b function) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	}), nil
}

// parse reads the functions that ran from lines of covdata func: name:line:, the function, and the share that ran.
func parse(out string) (ran []function, err error) {
	for line := range strings.Lines(out) {
		place, isOurs := strings.CutPrefix(line, module)
		words := strings.Fields(place)
		if !isOurs || len(words) != 3 || words[2] == "0.0%" {
			continue
		}
		file, number, _ := strings.Cut(strings.TrimSuffix(words[0], ":"), ":")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("covdata func says %q: %w", line, err)
		}
		ran = append(ran, function{file, n, words[1]})
	}
	return ran, nil
}

// listed lists functions by file.
func listed(all []function) counted {
	var b strings.Builder
	files := 0
	for i, f := range all {
		if i == 0 || f.file != all[i-1].file {
			files++
			fmt.Fprintf(&b, "  %s\n", f.file)
		}
		fmt.Fprintf(&b, "    %d\t%s\n", f.line, f.name)
	}
	return counted{n: len(all), of: fmt.Sprintf("in %d files", files), long: b.String()}
}
