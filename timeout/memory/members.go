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
	until int64
}

// Beat is engine.Members'.
func (e *Engine) Beat(ctx context.Context, who engine.Node, ttl time.Duration) (engine.View, error) {
	if err := e.enter(ctx); err != nil {
		return engine.View{}, err
	}
	defer e.mu.Unlock()
	at := now()
	e.dismiss(func(n node) bool { return n.until <= at && n.Name != who.Name })
	until := at + engine.CeilMillis(ttl)
	i := slices.IndexFunc(e.nodes, func(n node) bool { return n.Name == who.Name })
	switch {
	case i < 0:
		e.nodes = append(e.nodes, node{who, until})
		e.term++
	case !sameTopics(e.nodes[i].Topics, who.Topics):
		e.nodes[i] = node{who, until}
		e.term++
	default:
		e.nodes[i].until = until
	}
	view := engine.View{Term: e.term}
	for _, n := range e.nodes {
		view.Nodes = append(view.Nodes, n.Node)
	}
	return view, nil
}

func sameTopics(a, b []string) bool {
	return (a == nil) == (b == nil) && slices.Equal(a, b)
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
	before := len(e.nodes)
	e.nodes = slices.DeleteFunc(e.nodes, which)
	if len(e.nodes) != before {
		e.term++
	}
}
