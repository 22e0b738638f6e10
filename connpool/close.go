package connpool

import (
	"context"
	"fmt"
)

// Close closes the idle connections, side by side. Every Get, waiting or new, returns [ErrClosed]. Close
// waits for the dials, checks, closes and reports begun by the pool itself; their context ends.
// Connections in use stay so, and are closed when they are put back. Close does not wait for them,
// and has no bound for a function that hangs: [Pool.Shutdown] has both. Closing again does
// nothing but wait. It returns nil, always.
func (p *Pool[T]) Close() error {
	_ = p.finish(context.Background(), false)
	return nil
}

// Shutdown is [Pool.Close], and also waits for the connections in use: each is closed when it
// comes back. If the context ends first, Shutdown returns its error, wrapped with the number of
// connections left (in use, being closed, and being dialed) and of closes, checks and reports in the
// background. A connection in use is never closed
// under its user, since not everything with a Close can bear it. It stays open until it comes
// back, or until the process ends. With [Config.LeakAfter] its Get is known.
//
// Shutdown may be called again, also after Close, to wait for longer.
func (p *Pool[T]) Shutdown(ctx context.Context) error { return p.finish(ctx, true) }

func (p *Pool[T]) finish(ctx context.Context, leases bool) error {
	p.shut()
	err := p.wait(ctx, leases)
	p.group.leave(p)
	if p.owned {
		p.group.wheel.Stop()
	}
	return err
}

func (p *Pool[T]) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.discardIdle(ReasonClosed)
	p.closed = true
	p.cancel()
	for at := p.waiters.Front(); at != nil; at = p.waiters.Front() {
		p.answer(at, Lease[T]{}, ErrClosed)
	}
	if p.pause != nil {
		p.pause.Remove()
	}
}

// wait waits for the pool's own work, and also for all leases if wanted.
func (p *Pool[T]) wait(ctx context.Context, leases bool) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.less.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.working > 0 || leases && p.open > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("connpool: closed, with %d connections in use, %d being closed, %d being dialed, and %d jobs in the background: %w",
				p.inUse(), p.closing, p.dialing, p.working-p.dialing, err)
		}
		p.less.Wait()
	}
	return nil
}
