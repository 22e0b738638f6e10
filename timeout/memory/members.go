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

// Beat is engine.Members'.
func (e *Engine) Beat(ctx context.Context, who engine.Node, ttl time.Duration) (engine.View, error) {
	if err := e.enter(ctx); err != nil {
		return engine.View{}, err
	}
	defer e.mu.Unlock()
	at := now()
	e.dismiss(func(n node) bool { return n.until <= at && n.Name != who.Name })
	var view engine.View
	this := node{who, who.Run, at + engine.CeilMillis(ttl), ttl}
	this.Run = "" // views have none
	i := slices.IndexFunc(e.nodes, func(n node) bool { return n.Name == who.Name })
	if i < 0 {
		e.nodes = append(e.nodes, this)
	} else {
		old := e.nodes[i]
		if old.until > at {
			view.Other = who.Other(old.run)
		}
		e.nodes[i] = this
	}
	for _, n := range e.nodes {
		view.Nodes, view.TTL = append(view.Nodes, n.Node), max(view.TTL, n.ttl)
	}
	return view, nil
}

// Leave is engine.Members'.
func (e *Engine) Leave(ctx context.Context, name string) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	e.dismiss(func(n node) bool { return n.Name == name })
	return nil
}

// dismiss ends the membership of the nodes selected by which. e.mu must be held.
func (e *Engine) dismiss(which func(node) bool) {
	e.nodes = slices.DeleteFunc(e.nodes, which)
}
