package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	spread = 200 * time.Millisecond // over which nodes read the list when it has changed
	again  = time.Second            // after which what could not be watched is tried again
)

// Watch is timeout.Watcher's. It begins when a node has joined with Beat, and calls changed
// once then, for what it has missed. It outlives servers that are away, and sessions that end.
func (m *Members) Watch(ctx context.Context, changed func()) error {
	for {
		m.mu.Lock()
		s, another := m.session, m.another
		m.mu.Unlock()
		if s != nil {
			(&watch{m: m, s: s, changed: changed}).run(ctx, another)
		}
		select {
		case <-another:
		case <-ctx.Done():
			return nil
		case <-m.closing:
			return timeout.ErrClosed
		}
	}
}

// watch is what Watch knows of a session.
type watch struct {
	m       *Members
	s       *session
	changed func()

	list        <-chan zk.Event // nodes came or went; nil if that is not watched
	topics      <-chan zk.Event // one serves other topics
	leader      <-chan zk.Event // the next smaller one has gone
	predecessor string          // which is that one; empty if there is none
}

// run watches until the session is another one.
func (w *watch) run(ctx context.Context, another <-chan struct{}) {
	tell := time.NewTimer(0)
	defer tell.Stop()
	for {
		var retry <-chan time.Time
		if err := w.arm(ctx); err != nil {
			retry = time.After(again)
		}
		select {
		case <-w.leader:
			w.leader, w.predecessor = nil, ""
			w.changed()
		case <-w.list:
			w.list = nil
			tell.Reset(rand.N(spread))
		case <-w.topics:
			w.topics = nil
			tell.Reset(rand.N(spread))
		case <-tell.C:
			w.changed()
		case <-retry:
			tell.Reset(0) // for what was missed meanwhile
		case <-another:
			return
		case <-w.m.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// arm watches what is not watched. A watch that is there stays: go-zookeeper takes it to the
// next connection, and knows no way to end it.
func (w *watch) arm(ctx context.Context) error {
	if w.topics == nil {
		topics, err := call(ctx, w.m, func() (<-chan zk.Event, error) {
			_, _, events, err := w.s.conn.GetW(w.m.cfg.Path)
			return events, err
		})
		if err != nil {
			return err
		}
		w.topics = topics
	}
	if w.list != nil {
		return nil
	}
	type list struct {
		children []string
		events   <-chan zk.Event
	}
	now, err := call(ctx, w.m, func() (list, error) {
		children, _, events, err := w.s.conn.ChildrenW(w.m.cfg.Path)
		return list{children, events}, err
	})
	if err != nil {
		return err
	}
	w.list = now.events
	return w.follow(ctx, before(now.children, w.s.node.child.Load()))
}

// follow watches the next smaller node.
func (w *watch) follow(ctx context.Context, predecessor string) error {
	if predecessor == w.predecessor {
		return nil
	}
	w.predecessor, w.leader = predecessor, nil
	if predecessor == "" {
		return nil
	}
	events, err := call(ctx, w.m, func() (<-chan zk.Event, error) {
		_, _, events, err := w.s.conn.GetW(w.m.cfg.Path + "/" + predecessor)
		return events, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode): // it has gone already, and the list will say so
		w.predecessor = ""
		w.changed()
		return nil
	case err != nil:
		w.predecessor, w.list = "", nil
	}
	w.leader = events
	return err
}

// before returns the child that came before one, or an empty string.
func before(children []string, one *string) string {
	last := ""
	if one == nil {
		return last
	}
	for _, child := range inOrder(children) {
		if child == *one {
			break
		}
		last = child
	}
	return last
}

// call does a call that knows no context, and stops waiting for it when ctx ends. It returns
// then when its connection ends.
func call[T any](ctx context.Context, m *Members, what func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	answered := make(chan answer, 1)
	if !m.start(func() {
		value, err := what()
		answered <- answer{value, err}
	}) {
		return none, timeout.ErrClosed
	}
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
