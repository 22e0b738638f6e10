package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// counters is what a run tells about itself while it goes on.
type counters struct {
	established, heartbeats, closed atomic.Int64
}

const (
	terminalEvery = 200 * time.Millisecond
	plainEvery    = 5 * time.Second
)

// showProgress writes one changing line on a terminal, and elsewhere a line now and then, until stop
// is called.
func showProgress(out io.Writer, c *counters) (stop func()) {
	every, begin, end := plainEvery, "", "\n"
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		every, begin, end = terminalEvery, "\r", "\x1b[K"
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		start := time.Now()
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		var last int64
		for {
			select {
			case <-quit:
				if begin != "" {
					fmt.Fprintf(out, "%s%s", begin, end)
				}
				return
			case <-ticker.C:
				beats := c.heartbeats.Load()
				fmt.Fprintf(out, "%sconnections %d  heartbeats %.0f/s  closed %d  elapsed %v%s", begin,
					c.established.Load(), float64(beats-last)/every.Seconds(), c.closed.Load(),
					time.Since(start).Round(time.Second), end)
				last = beats
			}
		}
	}()
	return func() { close(quit); <-done }
}
