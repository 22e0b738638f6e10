package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func idleRows(s *servers) []measurement {
	row := func(subject string, open opener, server func(context.Context) (float64, error)) measurement {
		return noted("Idle topics, % of a core", subject, "%.1f", func(note *string) func(context.Context) (float64, error) {
			return idleCost(open, server, note)
		})
	}
	return []measurement{
		row("Redis", onRedis(s), s.server.Processor),
		row("PostgreSQL", onPostgres(s), s.postgresProcessor),
		row("SQLite", onSQLite(s), nil),
	}
}

// idleCost returns what topics without tasks cost, in percent of a core: this process and the server.
// server returns the server's processor time in seconds, and nil stands for no server.
func idleCost(open opener, server func(context.Context) (float64, error), note *string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (figure float64, err error) {
		err = with(ctx, open, func(_ engine.Engine, center *timeout.Center) error {
			for i := range *idleTopics {
				if err := center.Handle(fmt.Sprint("idle-", i), func(context.Context, timeout.Task) error { return nil }); err != nil {
					return err
				}
			}
			return whileRunning(ctx, center, func() error {
				if err := eventually(ctx, func() (bool, error) { return len(center.Stats()) >= *idleTopics, nil }); err != nil {
					return err
				}
				time.Sleep(10 * time.Second) // for the first looks, and for what the server does about new tables
				own, theirs, err := processor(ctx, server)
				if err != nil {
					return err
				}
				time.Sleep(*idle)
				own2, theirs2, err := processor(ctx, server)
				percent := 100 / idle.Seconds()
				own, theirs = (own2-own)*percent, (theirs2-theirs)*percent
				*note = fmt.Sprintf("%d topics, %v: process %.1f, server %.1f", *idleTopics, *idle, own, theirs)
				figure = own + theirs
				return err
			})
		})
		return figure, err
	}
}

// whileRunning calls f while the center runs.
func whileRunning(ctx context.Context, center *timeout.Center, f func() error) error {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- center.Run(running) }()
	err := f()
	stop()
	return joined(err, <-ended)
}

// processor returns the processor time of this process and of a server, in seconds.
func processor(ctx context.Context, server func(context.Context) (float64, error)) (own, theirs float64, err error) {
	if server != nil {
		if theirs, err = server(ctx); err != nil {
			return 0, 0, err
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds(), theirs, nil
}

// postgresProcessor returns the processor time of all processes of PostgreSQL in seconds. It needs
// Linux's /proc.
func (s *servers) postgresProcessor(context.Context) (float64, error) {
	const perSecond = 100 // ticks of the kernel
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(paths) == 0 {
		return 0, errors.Join(errors.New("no /proc here"), err)
	}
	postmaster, sum := s.running[0].Process.Pid, 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		own := filepath.Base(filepath.Dir(path)) == strconv.Itoa(postmaster)
		if !own && fields[1] != strconv.Itoa(postmaster) {
			continue
		}
		times := fields[11:13] // user and system
		if own {
			times = fields[11:15] // and those of its children that have ended
		}
		for _, field := range times {
			ticks, err := strconv.Atoi(field)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", path, err)
			}
			sum += ticks
		}
	}
	return float64(sum) / perSecond, nil
}
