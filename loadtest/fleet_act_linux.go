package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

const awayPoll = 10 * time.Millisecond

// act does to the fleet what the run is about, and returns when all that comes of it must have
// come. It sets the end of the run.
func (c *crew) act(ctx context.Context) (*timeline, error) {
	err := c.awaitFigures(ctx)
	c.fleet.usage.steady = c.fleet.measure()
	switch f := c.fleet; {
	case err != nil:
	case c.cfg.rolling:
		err = c.restartAll(ctx)
	case c.cfg.kill > 0:
		f.killSome(f.all()[:c.cfg.kill])
	}
	if err == nil && c.cfg.aftermath() > 0 {
		err = c.await(ctx, time.Now().Add(c.cfg.aftermath()+telling))
	}
	c.fleet.usage.after = c.fleet.measure()
	line := *c.timeline.Load()
	line.settling, line.end = c.now(), c.now()
	c.timeline.Store(&line)
	return &line, err
}

// awaitFigures waits until each node has said what it has since all sessions are there, but not
// for ever.
func (c *crew) awaitFigures(ctx context.Context) error {
	since := c.fleet.usage.before.at.Add(speaking / 4) // later than what was on its way then
	deadline := time.Now().Add(reporting)
	for _, n := range c.fleet.serving() {
		for !n.log.total().at.After(since) && n.state.Load() == up && time.Now().Before(deadline) {
			if err := c.await(ctx, time.Now().Add(awayPoll)); err != nil {
				return err
			}
		}
	}
	return nil
}

// killSome kills nodes, as a machine does that loses its power.
func (f *fleet) killSome(nodes []*node) {
	for _, n := range nodes {
		if f.end(n, killed) {
			_ = n.child.cmd.Process.Kill()
		}
	}
	for _, n := range nodes {
		if n.state.Load() == killed {
			n.child.kill() // and is waited for
			f.forget(n)
		}
	}
}

// restartAll ends one node after the other and starts each anew when it has ended and all of its
// clients have gone elsewhere.
func (c *crew) restartAll(ctx context.Context) error {
	for _, n := range c.fleet.all() {
		if err := c.fleet.restart(ctx, n); err != nil {
			return err
		}
		for deadline := time.Now().Add(c.cfg.lease); c.fleet.away.Load() > 0 && time.Now().Before(deadline); {
			if err := c.await(ctx, time.Now().Add(awayPoll)); err != nil {
				return err
			}
		}
	}
	return nil
}

// restart ends a node and starts another with its name, unless it has ended by itself, which is no
// pass already.
func (f *fleet) restart(ctx context.Context, n *node) error {
	if !f.end(n, draining) {
		return nil
	}
	if err := n.child.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	switch err := n.child.ended(ctx, time.Now().Add(stopLimit)); {
	case ctx.Err() != nil:
		return interrupted(ctx)
	case err != nil:
		return fmt.Errorf("%s did not end well: %w", n.name, err)
	}
	f.forget(n)
	next, err := f.startNode(n.name)
	if err != nil {
		return err
	}
	if err := next.listens(ctx); err != nil {
		return err
	}
	f.meter.join(next.child.cmd.Process.Pid)
	return nil
}
