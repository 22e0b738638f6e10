package keepalive

import "context"

// Context returns a context that is done when a connection is closed, whose cause
// (context.Cause) is then the [Reason]. Where the Keeper closes it, the context is
// done before the connection is. It is the same one each time. That of a connection
// which is not guarded is done already, because of [ErrNotGuarded].
func (k *Keeper) Context(conn any) context.Context {
	if g := k.guardOf(conn); g != nil {
		if ctx := k.detailsOf(g).ctx(); ctx != nil && k.pool.Has(&g.member) {
			return ctx
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotGuarded)
	return ctx
}

func (d *details) ctx() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.context == nil && !d.forgotten {
		d.context, d.cancel = context.WithCancelCause(context.Background())
	}
	return d.context
}

// forget ends what goes with a connection that is not guarded any more.
func (k *Keeper) forget(g *Guard, why error) {
	d := g.details.Load()
	if d == nil {
		return
	}
	d.mu.Lock()
	share, cancel := d.share, d.cancel
	d.share, d.forgotten = nil, true
	d.mu.Unlock()
	k.shares.GiveBack(share)
	if cancel != nil {
		cancel(why)
	}
}
