package fleet

import (
	"context"
	"fmt"
	"time"
)

const awayPoll = 10 * time.Millisecond

// Wait waits until a time, and returns an error if the run has to end before.
type Wait func(ctx context.Context, until time.Time) error

// Act watches the fleet in its steady phase, until each node has said its figures since. Then it does
// to the fleet what the run is about, and returns after all consequences. BeginSteady must have been
// called before.
func (f *Fleet) Act(ctx context.Context, wait Wait) error {
	err := f.awaitFigures(ctx, wait)
	f.usage.steady = f.measure()
	switch {
	case err != nil:
	case f.cfg.Rolling:
		err = f.restartAll(ctx, wait)
	case f.cfg.Kill > 0:
		f.killSome(f.all()[:f.cfg.Kill])
	}
	if err == nil && f.cfg.aftermath() > 0 {
		err = wait(ctx, time.Now().Add(f.cfg.aftermath()+telling))
	}
	f.usage.after = f.measure()
	return err
}

// awaitFigures waits until each node has said its figures with all sessions, for 5 s at most.
func (f *Fleet) awaitFigures(ctx context.Context, wait Wait) error {
	since := f.usage.before.at.Add(speaking / 4) // after all figures that were on their way
	deadline := time.Now().Add(reporting)
	for _, n := range f.serving() {
		for !n.log.total().at.After(since) && n.state.Load() == up && time.Now().Before(deadline) {
			if err := wait(ctx, time.Now().Add(awayPoll)); err != nil {
				return err
			}
		}
	}
	return nil
}

// killSome kills nodes, as a power cut does.
func (f *Fleet) killSome(nodes []*node) {
	for _, n := range nodes {
		if f.end(n, killed) {
			n.child.Crash()
		}
	}
	for _, n := range nodes {
		if n.state.Load() == killed {
			n.child.Kill() // it waits
			f.forget(n)
		}
	}
}

// restartAll ends one node after the other and starts it anew, after its end and when all of its
// clients have found another.
func (f *Fleet) restartAll(ctx context.Context, wait Wait) error {
	for _, n := range f.all() {
		if err := f.restart(ctx, n); err != nil {
			return err
		}
		for deadline := time.Now().Add(f.cfg.Lease); f.away.Load() > 0 && time.Now().Before(deadline); {
			if err := wait(ctx, time.Now().Add(awayPoll)); err != nil {
				return err
			}
		}
	}
	return nil
}

// restart ends a node and starts another with its name. It does nothing for a node that has ended by
// itself: the run fails anyway.
func (f *Fleet) restart(ctx context.Context, n *node) error {
	if !f.end(n, draining) {
		return nil
	}
	if err := n.child.Terminate(); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	switch err := n.child.Ended(ctx); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
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
	f.meter.Join(next.child.PID())
	return nil
}
