package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	spread = 200 * time.Millisecond // the nodes spread their reads of a new list over this time
	again  = time.Second            // pause before another try to watch
)

// Watch implements engine.Watcher. It begins when a node has joined with Heartbeat. It then calls
// changed once, because it may have missed changes. It goes on when servers are away, and when
// sessions end.
func (m *Members) Watch(ctx context.Context, changed func()) error {
	ended := make(chan error, 1)
	watching := m.start(func() {
		asked := ctx
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(m.life, cancel)()
		select {
		case <-m.joined:
		case <-ctx.Done():
		}
		for ctx.Err() == nil {
			m.watch(ctx, changed)
			select {
			case <-time.After(again):
			case <-ctx.Done():
			}
		}
		if asked.Err() == nil { // seen before Close returns
			ended <- engine.ErrClosed
		}
		close(ended)
	})
	if !watching {
		return engine.ErrClosed
	}
	return <-ended
}

// watch is the state of Watch for one connection, whose session ends with it. A node's session must
// not have watches: go-zookeeper takes them to the next connection with a data race. It may name a
// later change than the last one seen, and the server then leaves out the changes before.
type watch struct {
	m       *Members
	s       *session
	changed func()

	// A nil channel means that nothing watches yet.
	list        <-chan zk.Event // nodes came or went
	topics      <-chan zk.Event // a node changed its topics
	leader      <-chan zk.Event // the next smaller node went, or changed its topics
	predecessor string          // znode of the next smaller node; empty if there is none
}

// watch watches until the connection is lost.
func (m *Members) watch(ctx context.Context, changed func()) {
	n := m.last.Load()
	n.mu.Lock()
	ttl := n.ttl
	n.mu.Unlock()
	s, err := m.connect(ttl, make(chan struct{}, 1))
	if err != nil {
		return
	}
	defer s.close()
	w := &watch{m: m, s: s, changed: changed}
	tell := time.NewTimer(0)
	defer tell.Stop()
	for armed := false; ; {
		var retry <-chan time.Time
		before := armed
		if armed = w.arm(ctx) == nil; !armed {
			retry = time.After(again)
		} else if !before {
			tell.Reset(0) // changes may have been missed meanwhile
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
			tell.Reset(0) // somebody who is not told of changes has to look
		case <-s.dialer.lost:
			return
		case <-ctx.Done():
			return
		}
	}
}

// arm sets the missing watches. A watch that is set stays until the connection ends.
func (w *watch) arm(ctx context.Context) error {
	if w.topics == nil {
		topics, err := call(ctx, w.m, func() (<-chan zk.Event, error) {
			if err := w.s.introduce(w.m.cfg); err != nil {
				return nil, err
			}
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
	return w.follow(ctx, before(now.children, w.m.last.Load().child.Load()))
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
	case errors.Is(err, zk.ErrNoNode): // it has gone already; the list will tell the next one
		w.predecessor = ""
		w.changed()
		return nil
	case err != nil:
		w.predecessor, w.list = "", nil
	}
	w.leader = events
	return err
}

// before returns the child that came just before one, or an empty string.
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

// call runs a function that takes no context. When ctx ends, call returns; the function goes on
// until it has its answer or its connection ends.
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
		return none, engine.ErrClosed
	}
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
