package memory

import (
	"context"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// node is a member until its time is over.
type node struct {
	engine.Node
	run   string
	until int64
	ttl   time.Duration
}

// Heartbeat is engine.Members'.
func (e *Engine) Heartbeat(ctx context.Context, who engine.Node, ttl time.Duration) (engine.View, error) {
	return call(ctx, e, func() (view engine.View, _ error) {
		at := now()
		e.dismiss(func(n node) bool { return n.until <= at && n.Name != who.Name })
		this := node{who, who.Run, at + engine.CeilMillis(ttl), ttl}
		this.Run = "" // views have none
		i := slices.IndexFunc(e.nodes, func(n node) bool { return n.Name == who.Name })
		if i < 0 {
			i, e.nodes = len(e.nodes), append(e.nodes, this)
		} else if old := e.nodes[i]; old.until > at {
			view.Other = who.Other(old.run)
		}
		e.nodes[i] = this
		for _, n := range e.nodes {
			view.Nodes, view.TTL = append(view.Nodes, n.Node), max(view.TTL, n.ttl)
		}
		return view, nil
	})
}

// Leave is engine.Members'.
func (e *Engine) Leave(ctx context.Context, name string) error {
	_, err := call(ctx, e, func() (bool, error) {
		e.dismiss(func(n node) bool { return n.Name == name })
		return true, nil
	})
	return err
}

// dismiss ends the membership of the nodes selected by which. e.mu must be held.
func (e *Engine) dismiss(which func(node) bool) {
	e.nodes = slices.DeleteFunc(e.nodes, which)
}
