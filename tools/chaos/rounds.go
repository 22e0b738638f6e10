package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// chaos runs the packages in turn, round after round, until time is over. With a fixed seed it ends with the
// first failure, too.
func (w *workshop) chaos(ctx context.Context, pkgs []gotest.Package, seed uint64, fixed bool, long time.Duration) error {
	fmt.Printf("chaos: %s, %d packages, seeds from %d\n", w.golang.version, len(pkgs), seed)
	var found findings
	built := make([]*tests, len(pkgs))
	begun := time.Now()
	runs := 0
	over := func() bool { return runs > 0 && time.Since(begun) >= long || fixed && found.err() != nil }
	for round := 0; !over(); round++ {
		for n := range pkgs {
			if over() {
				break
			}
			i := (n + int(seed%uint64(len(pkgs)))) % len(pkgs) // a short time does not always begin with the same
			if built[i] == nil {
				fmt.Printf("      building %s\n", pkgs[i].Name)
				since, err := time.Now(), error(nil)
				if built[i], err = w.build(pkgs[i], w.library); err != nil {
					return errors.Join(found.err(), err)
				}
				begun = begun.Add(time.Since(since)) // only tests count
			}
			now := seed
			if !fixed {
				now += uint64(round)
			}
			if err := w.once(ctx, built[i], now, fmt.Sprintf("%s-%d", pkgs[i].Name, now), &found); err != nil {
				return errors.Join(found.err(), err)
			}
			runs++
		}
	}
	fmt.Printf("%d runs in %v without compiling, of %d packages of %d\n", runs, time.Since(begun).Round(time.Second), len(found.ran), len(pkgs))
	return found.err()
}

// stress runs each package a number of times, beside busy loops. It goes by rounds, so that each package has been
// seen before one is seen again. A round of a package is some runs at once.
func (w *workshop) stress(ctx context.Context, pkgs []gotest.Package, times, atOnce, busy int) error {
	if times < 1 || atOnce < 1 || busy < 0 {
		return fmt.Errorf("-times %d -at-once %d -busy %d, must be at least 1, 1 and 0", times, atOnce, busy)
	}
	fmt.Printf("stress: %s, %d packages, %d times each, %d at once, beside %d busy loops\n", w.golang.version, len(pkgs), times, atOnce, busy)
	runtime.GOMAXPROCS(runtime.NumCPU() + busy)
	var over atomic.Bool
	defer over.Store(true)
	for range busy {
		go func() {
			for n := 0; !over.Load(); {
				n++
			}
		}()
	}
	var found findings
	built := make([]*tests, len(pkgs))
	for begin := 0; begin < times; begin += atOnce {
		for i, p := range pkgs {
			if built[i] == nil {
				var err error
				if built[i], err = w.build(p, nil); err != nil {
					return errors.Join(found.err(), err)
				}
			}
			var runs errgroup.Group
			for n := begin; n < min(begin+atOnce, times); n++ {
				runs.Go(func() error { return w.once(ctx, built[i], 0, fmt.Sprintf("%s-stress-%d", p.Name, n+1), &found) })
			}
			if err := runs.Wait(); err != nil {
				return errors.Join(found.err(), err)
			}
		}
	}
	return found.err()
}

// once runs tests, says what came of it, and keeps the log of a failure.
func (w *workshop) once(ctx context.Context, t *tests, seed uint64, name string, found *findings) error {
	o, err := w.run(ctx, t, seed, name)
	if err != nil {
		return err
	}
	said := "ok  "
	if o.failed != nil {
		said = "FAIL"
	}
	fmt.Printf("%s  %s  seed %d  %.1fs\n", said, t.Name, seed, o.took.Seconds())
	found.runs(t.Name)
	if o.failed == nil {
		return nil
	}
	log, err := w.keep(name, o)
	if err != nil {
		return err
	}
	found.failed(t.Name, o.failed)
	fmt.Printf("      %s\n      log: %s\n      again: %s\n", strings.Join(o.failed, " "), log, w.again(t.Name, seed, o.failed))
	return nil
}

// again is the command to repeat a failure.
func (w *workshop) again(name string, seed uint64, failed []string) string {
	tests := gotest.TopLevel(failed)
	command := "make stress PKGS=" + name
	if seed != 0 {
		command = fmt.Sprintf("make chaos PKGS=%s SEED=%d", name, seed)
	}
	if w.tags != "" {
		command += " TAGS=" + w.tags
	}
	if w.stop > 0 && seed != 0 {
		command += " STOP=" + w.stop.String()
	}
	if len(tests) > 0 {
		command += " RUN='^(" + strings.Join(tests, "|") + ")$$'"
	}
	return command
}
