package fleet

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// layout notes whether the fleet has the same slots as this node. After the server has lost its
// data, a new node may decide on other slots before the existing nodes have confirmed theirs. Then
// there are two fleets without knowledge of each other, and this node ends its part.
type layout struct {
	doubt chan struct{}         // has an element when the server may have lost its data
	other atomic.Pointer[error] // what is wrong, if anything
}

// ask requests a confirmation soon.
func (l *layout) ask() {
	select {
	case l.doubt <- struct{}{}:
	default:
	}
}

// wrong returns the present error, if any.
func (l *layout) wrong() error {
	if err := l.other.Load(); err != nil {
		return *err
	}
	return nil
}

// layoutLoop confirms the number of slots now and then. So no node decides otherwise.
func (n *Node) layoutLoop(ctx context.Context) {
	ticker := time.NewTicker(n.cfg.shortest())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-n.layout.doubt:
		}
		n.confirmOnce()
	}
}

func (n *Node) confirmOnce() {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	defer cancel()
	err := n.store.confirm(ctx)
	switch {
	case err == nil:
		if n.layout.other.Swap(nil) != nil {
			n.cfg.Logger.Info("fleet: the slots are as they were, and the node serves again", "node", n.cfg.Node)
		}
		return
	case !errors.Is(err, ErrArgument):
		n.stats.failed(err)
		return
	}
	if n.layout.other.Swap(&err) == nil {
		n.cfg.Logger.Error("fleet: the node stops serving, others use other slots", "node", n.cfg.Node, "error", err)
	}
	for _, s := range n.in(n.everySlot()) {
		n.takeAway(s, ReasonLost, leaveAlone)
	}
}
