package zookeeper

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	tries   = 8 // of a beat, while others change what it reads
	strikes = 3 // connections that a server took, and gave no answer on
)

// node is a member that beats here.
type node struct {
	m       *Members
	timer   *time.Timer // fires when it has not beaten for its ttl
	session atomic.Pointer[session]
	child   atomic.Pointer[string] // its znode, without the parent's path; nil if it has none

	mu    sync.Mutex
	heard time.Time // when it beat last
	ttl   time.Duration

	// turn has an element while somebody uses what follows. It may be a call that nobody waits
	// for any more: go-zookeeper's know no context.
	turn   chan struct{}
	mark   string   // by which the node knows a znode as its own
	topics []string // that the znode has
	unsure bool     // it may have others: nothing was heard of the last change
	last   snapshot
}

func newNode(m *Members) *node {
	n := &node{m: m, turn: make(chan struct{}, 1)}
	n.timer = time.AfterFunc(time.Hour, func() { m.start(n.silent) })
	n.timer.Stop()
	return n
}

// do does what needs the node's turn, and stops waiting for it when ctx ends.
func do[T any](ctx context.Context, n *node, what func() (T, error)) (T, error) {
	select {
	case n.turn <- struct{}{}:
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	end := sync.OnceFunc(func() { <-n.turn })
	value, err := call(ctx, n.m, func() (T, error) {
		defer end()
		return what()
	})
	if errors.Is(err, timeout.ErrClosed) {
		end() // it was not begun
	}
	return value, err
}

// hear says that the node beats.
func (n *node) hear(ttl time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard, n.ttl = time.Now(), ttl
	n.timer.Reset(ttl)
}

// silent ends the membership of a node that has not beaten for its ttl: ZooKeeper hears the
// process, which is not enough.
func (n *node) silent() {
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	default:
		return // it beats, and the timer runs anew
	}
	n.mu.Lock()
	silent := time.Since(n.heard) >= n.ttl
	n.mu.Unlock()
	if silent {
		n.end()
	}
}

// beat has the node be a member, and returns who is. The node's turn must be had.
func (n *node) beat(who timeout.Node, ttl time.Duration) (timeout.View, error) {
	s := n.session.Load()
	if s != nil && s.ttl != ttl {
		n.end()
		s = nil
	}
	if s == nil {
		var err error
		if s, err = n.connect(ttl); err != nil {
			return timeout.View{}, err
		}
	}
	var view timeout.View
	err := s.introduce(n.m.cfg)
	if err == nil {
		view, err = n.join(s, who)
	}
	switch {
	case err == nil:
		s.dialer.taken.Store(0)
	case s.dialer.taken.Load() >= strikes:
		// A server that has lost what this session has seen refuses it for ever. A new one
		// costs the place.
		n.end()
	}
	return view, err
}

// join does what is missing for the node to be a member.
func (n *node) join(s *session, who timeout.Node) (timeout.View, error) {
	data, err := json.Marshal(who)
	if err != nil {
		return timeout.View{}, err
	}
	for range tries {
		there, stat, err := s.conn.Exists(n.m.cfg.Path)
		if err != nil {
			return timeout.View{}, err
		}
		if !there {
			if err := n.m.makePath(s.conn); err != nil {
				return timeout.View{}, err
			}
			continue
		}
		joined := n.child.Load() != nil && !n.unsure && sameTopics(n.topics, who.Topics)
		if joined && term(stat) == n.last.term {
			return n.last.view(), nil
		}
		children, stat, err := s.conn.Children(n.m.cfg.Path)
		if err != nil {
			return timeout.View{}, err
		}
		switch child := find(children, n.mark); {
		case child == "":
			err = n.create(s, data, who.Topics)
		case n.unsure || !sameTopics(n.topics, who.Topics):
			n.child.Store(&child)
			err = n.update(s, child, data, who.Topics)
		default:
			n.child.Store(&child)
			n.m.use(s)
			var seen snapshot
			if seen, err = n.last.next(s.conn, n.m.cfg.Path, children, stat); err == nil {
				n.last = seen
				return seen.view(), nil
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) { // one that has gone just now
			return timeout.View{}, err
		}
	}
	return timeout.View{}, errBusy
}

var errBusy = errors.New("nodes come and go faster than they can be read")

// create makes the node's znode. Where the answer is lost, the mark tells.
func (n *node) create(s *session, data []byte, topics []string) error {
	n.child.Store(nil)
	n.topics, n.unsure = slices.Clone(topics), false
	_, err := s.conn.Create(n.m.cfg.Path+"/"+n.mark, data, zk.FlagEphemeral|zk.FlagSequence, n.m.cfg.ACL)
	return err
}

// update has the znode have other topics, and the parent a higher version, which says so to
// who reads it.
func (n *node) update(s *session, child string, data []byte, topics []string) error {
	n.unsure = true
	_, err := s.conn.Multi(
		&zk.SetDataRequest{Path: n.m.cfg.Path + "/" + child, Data: data, Version: -1},
		&zk.SetDataRequest{Path: n.m.cfg.Path, Version: -1},
	)
	if err == nil {
		n.topics, n.unsure = slices.Clone(topics), false
	}
	return err
}

// leave ends the membership. The node's turn must be had.
func (n *node) leave() error {
	n.timer.Stop()
	var err error
	if s, child := n.session.Load(), n.child.Load(); s != nil && child != nil {
		err = s.conn.Delete(n.m.cfg.Path+"/"+*child, -1)
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
	}
	n.end()
	return err
}

// end ends the session. The node's turn must be had.
func (n *node) end() {
	s := n.session.Swap(nil)
	if s == nil {
		return
	}
	n.m.unuse(s)
	n.child.Store(nil)
	n.last, n.unsure = snapshot{}, false
	s.close()
}

// close ends the node for good, be it in the middle of a beat.
func (n *node) close() {
	for {
		if s := n.session.Load(); s != nil {
			s.close() // calls end then
		}
		select {
		case n.turn <- struct{}{}:
			n.timer.Stop()
			n.end()
			<-n.turn
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// connect begins a session.
func (n *node) connect(ttl time.Duration) (*session, error) {
	s, err := n.m.connect(ttl)
	if err != nil {
		return nil, err
	}
	s.node = n
	n.mark = "n-" + rand.Text() + "-"
	n.session.Store(s)
	return s, nil
}

// makePath makes the znode whose children are the nodes, and those above it.
func (m *Members) makePath(conn *zk.Conn) error {
	path := ""
	for part := range strings.SplitSeq(m.cfg.Path[1:], "/") {
		path += "/" + part
		there, _, err := conn.Exists(path)
		if err == nil && !there {
			_, err = conn.Create(path, nil, zk.FlagPersistent, m.cfg.ACL)
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

func sameTopics(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }
