package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/netns"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/proc"
)

// director makes the server's life hard. One goroutine uses it.
type director struct {
	*soak
	settings settings
	server   *server
	rnd      *rand.Rand
	samples  []sample
	probes   int // of the server's health
	sick     int // of them failed
	done     map[string]int
	longer   bool // which of the two timeouts is in force
}

// direct does one thing after the other until the time is over.
func (d *director) direct(ctx context.Context) error {
	acts := []struct {
		name string
		do   func(context.Context) error
	}{{"reloads", d.reload}, {"pauses", d.pause}, {"restarts", d.restart}, {"vanishings", d.vanish}}
	if !netns.IsInside() {
		acts = acts[:len(acts)-1]
	}
	d.done = map[string]int{}
	gap := min(time.Minute, d.cfg.time/10)
	begun := time.Now()
	d.server.settled = begun.Add(2 * d.rules.timeout)
	for next := 0; time.Since(begun) < d.cfg.time; next++ {
		if next%len(acts) == 0 {
			d.rnd.Shuffle(len(acts), func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
		}
		d.watch(ctx, begun, min(gap, d.cfg.time-time.Since(begun)))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		act := acts[next%len(acts)]
		if err := act.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", act.name, err)
		}
		d.done[act.name]++
	}
	return nil
}

// watch looks at the server for a while.
func (d *director) watch(ctx context.Context, begun time.Time, long time.Duration) {
	const every = 2 * time.Second
	failed := 0 // in a row: a probe has a second try, as everywhere
	for end := time.Now().Add(long); time.Now().Before(end) && ctx.Err() == nil; sleep(ctx, min(every, time.Until(end))) {
		d.probes++
		if err := d.server.healthy(ctx); err == nil || ctx.Err() != nil {
			failed = 0
		} else if d.sick++; failed > 0 {
			d.tally.fault("the server is not healthy, for the second time: %v", err)
		} else {
			failed++
		}
		if time.Now().After(d.server.settled) {
			d.samples = append(d.samples, sample{
				at:    time.Since(begun),
				bytes: proc.ResidentBytes(d.server.PID()),
				files: proc.OpenFiles(d.server.PID()),
			})
		}
	}
}

func (d *director) reload(ctx context.Context) error {
	d.longer = !d.longer
	timeout := d.settings.rules.timeout
	if d.longer {
		timeout = d.settings.rules.longest
	}
	if err := d.settings.write(timeout); err != nil {
		return err
	}
	return d.server.reload(ctx)
}

func (d *director) pause(ctx context.Context) error {
	shortest := d.rules.timeout / 2
	return d.server.pause(ctx, shortest+time.Duration(d.rnd.Int64N(int64(d.longestPause()-shortest))))
}

func (d *director) restart(ctx context.Context) error {
	if err := d.server.end(ctx); err != nil {
		return err
	}
	g := &generation{addr: d.server.addr}
	d.serve(g)
	next, err := d.settings.start(ctx, g)
	if err != nil {
		return err
	}
	next.settled = time.Now().Add(2 * d.rules.timeout)
	d.server = next
	return nil
}

// vanish has a machine vanish until the server has closed all of its connections.
func (d *director) vanish(ctx context.Context) error {
	if err := netns.RemoveAddress(); err != nil {
		return err
	}
	d.here.leave()
	defer d.here.comeBack()
	begun := time.Now()
	for {
		n, err := d.server.has(ctx, machine)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if time.Since(begun) > d.patience() {
			d.tally.fault("lost: %d connections of a machine that vanished %v ago", n, time.Since(begun))
			break
		}
		sleep(ctx, time.Second)
	}
	if early := time.Since(begun); early < d.rules.timeout/2 { // pings may be out, and lines on their way
		d.tally.fault("early: all connections of a machine that vanished %v ago are closed", early)
	}
	return netns.AddAddress(machine)
}

// finish looks at the figures of the last server, when all clients have gone, and ends it.
func (d *director) finish(ctx context.Context) error {
	stats, err := d.server.stats(ctx)
	for begun := time.Now(); err == nil && stats.Connections.Open+stats.Connections.Leaving > 0 && time.Since(begun) < d.patience(); {
		sleep(ctx, 100*time.Millisecond)
		stats, err = d.server.stats(ctx)
	}
	if err != nil {
		return err
	}
	c := stats.Connections
	closed, refused := uint64(0), c.Refused.Full+c.Refused.PerKey+c.Refused.Draining
	for _, n := range c.Closed {
		closed += n
	}
	fmt.Fprintf(d.out, "%d reloads, %d pauses, %d restarts, %d vanishings; %d of %d health probes failed\n",
		d.done["reloads"], d.done["pauses"], d.done["restarts"], d.done["vanishings"], d.sick, d.probes)
	fmt.Fprintf(d.out, "the last server: the clients opened %d connections; guarded %d, refused %d, closed %d, open %d, panics %d\n",
		d.server.dialed.Load(), c.Opened, refused, closed, c.Open, c.Panics)
	if c.Opened != closed+uint64(c.Open) || c.Open > 0 || uint64(d.server.dialed.Load()) != c.Opened+refused || c.Panics > 0 {
		d.tally.fault("the figures of the last server don't add up: %+v", c)
	}
	d.flat()
	d.server.leaving.Store(true)
	return d.server.end(ctx)
}
