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

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	tries   = 8 // rounds of a heartbeat, while others change the list
	strikes = 3 // connections without a successful heartbeat, before the node gives up its session
)

// nodeKey tells the nodes of this process apart.
type nodeKey struct{ name, run string }

// node is a member in this process.
type node struct {
	m       *Members
	timer   *time.Timer // fires ttl after the last heartbeat
	session atomic.Pointer[session]
	child   atomic.Pointer[string] // name of the node's znode, without the path; nil if none

	mu    sync.Mutex
	heard time.Time // last heartbeat
	ttl   time.Duration

	// turn guards the fields below; it has an element while it is taken. The holder may be an
	// abandoned call, because the calls of go-zookeeper take no context.
	turn   chan struct{}
	prefix string   // prefix of the node's own znode
	topics []string // the topics in the znode
	unsure bool     // the last update of the topics got no answer
	last   snapshot
	gone   bool             // has left; a run of that name is another node then
	others map[string]int32 // versions of the znodes of other nodes with this name
}

func newNode(m *Members) *node {
	n := &node{m: m, turn: make(chan struct{}, 1)}
	n.timer = time.AfterFunc(time.Hour, func() { m.start(n.silent) })
	n.timer.Stop()
	return n
}

// do calls a function with the node's turn. When ctx ends, do returns; the function may go on, and
// keeps the turn until it returns.
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
	if errors.Is(err, engine.ErrClosed) {
		end() // Close came first, and the function did not run
	}
	return value, err
}

// hear notes a heartbeat.
func (n *node) hear(ttl time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard, n.ttl = time.Now(), ttl
	n.timer.Reset(ttl)
}

// silent ends the membership of a node that has sent no heartbeat for its ttl. ZooKeeper still hears
// the process, but that is not enough.
func (n *node) silent() {
	select {
	case n.turn <- struct{}{}: // an abandoned heartbeat may join as late as this
		defer func() { <-n.turn }()
	case <-n.m.life.Done():
		return
	}
	n.mu.Lock()
	silent := time.Since(n.heard) >= n.ttl
	n.mu.Unlock()
	if silent {
		n.end()
	}
}

var errGone = errors.New("the node has left meanwhile")

// heartbeat makes the node a member, and returns the view. The caller has the node's turn.
func (n *node) heartbeat(who engine.Node, ttl time.Duration) (engine.View, error) {
	if n.gone {
		return engine.View{}, errGone
	}
	s := n.session.Load()
	if s != nil && s.ttl != ttl {
		n.end()
		s = nil
	}
	if s == nil {
		var err error
		if s, err = n.connect(ttl); err != nil {
			return engine.View{}, err
		}
	}
	var view engine.View
	err := s.introduce(n.m.cfg)
	if err == nil {
		view, err = n.join(s, who)
	}
	switch {
	case err == nil:
		view.Other = n.meet(s, who)
		s.dialer.taken.Store(0)
	case s.dialer.taken.Load() >= strikes:
		// A server that has lost data refuses this session for ever, because the session has
		// seen that data. A new session costs the node its place.
		n.end()
	}
	return view, err
}

// join makes the missing znodes, and returns the view.
func (n *node) join(s *session, who engine.Node) (engine.View, error) {
	data := recordOf(s, who)
	for range tries {
		there, stat, err := s.conn.Exists(n.m.cfg.Path)
		if err != nil {
			return engine.View{}, err
		}
		if !there {
			if err := n.m.makePath(s.conn); err != nil {
				return engine.View{}, err
			}
			continue
		}
		joined := n.child.Load() != nil && !n.unsure && sameTopics(n.topics, who.Topics)
		if joined && n.last.isOf(stat) {
			return n.last.view(), nil
		}
		children, stat, err := s.conn.Children(n.m.cfg.Path)
		if err != nil {
			return engine.View{}, err
		}
		switch child := find(children, n.prefix); {
		case child == "":
			err = n.create(s, data, who.Topics)
		case n.unsure || !sameTopics(n.topics, who.Topics):
			n.child.Store(&child)
			err = n.update(s, child, data, who.Topics)
		default:
			n.child.Store(&child)
			if n.m.last.Swap(n) == nil {
				close(n.m.joined)
			}
			var seen snapshot
			if seen, err = n.last.next(s.conn, n.m.cfg.Path, children, stat); err == nil {
				n.last = seen
				return seen.view(), nil
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) { // ErrNoNode: a znode has just gone
			return engine.View{}, err
		}
	}
	return engine.View{}, errBusy
}

var errBusy = errors.New("nodes come and go faster than they can be read")

// meet returns the run of another node with this name, if the other has sent a heartbeat since this node last
// looked. While such nodes see each other, each writes the same data to its znode at each heartbeat. The
// znode of a killed predecessor keeps its version until its session ends. An error of ZooKeeper is
// no error of the heartbeat: the next one looks again.
func (n *node) meet(s *session, who engine.Node) (other string) {
	before := n.others
	n.others = nil
	for child, node := range n.last.known {
		if node.Name != who.Name || who.Other(node.Run) == "" {
			continue
		}
		there, stat, err := s.conn.Exists(n.m.cfg.Path + "/" + child)
		if err != nil {
			n.others = before
			return ""
		}
		if !there {
			continue
		}
		if version, known := before[child]; known && stat.Version != version {
			other = node.Run
		}
		if n.others == nil {
			n.others = make(map[string]int32)
		}
		n.others[child] = stat.Version
	}
	if child := n.child.Load(); n.others != nil && child != nil {
		_, _ = s.conn.Set(n.m.cfg.Path+"/"+*child, recordOf(s, who), -1)
	}
	return other
}

// recordOf returns the data of a node's znode in a session.
func recordOf(s *session, who engine.Node) []byte {
	data, _ := json.Marshal(record{who, s.ttl.Milliseconds()}) // strings can always be written
	return data
}

// create makes the node's znode. If the answer is lost, the next round finds the znode by its prefix.
func (n *node) create(s *session, data []byte, topics []string) error {
	n.child.Store(nil)
	n.topics, n.unsure = slices.Clone(topics), false
	_, err := s.conn.Create(n.m.cfg.Path+"/"+n.prefix, data, zk.FlagEphemeral|zk.FlagSequence, n.m.cfg.ACL)
	return err
}

// update writes new topics into the znode. It also raises the version of the parent, to tell the
// other nodes.
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

// leave ends the membership. The caller has the node's turn.
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
	if err == nil {
		n.gone = true
		n.m.forget(n)
	}
	return err
}

// end ends the session. The caller has the node's turn.
func (n *node) end() {
	s := n.session.Swap(nil)
	if s == nil {
		return
	}
	n.child.Store(nil)
	n.last, n.unsure, n.others = snapshot{}, false, nil
	s.close()
}

// close ends the node for good, even in the middle of a heartbeat.
func (n *node) close() {
	for {
		if s := n.session.Load(); s != nil {
			s.close() // ends a call under way, too
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
	s, err := n.m.connect(ttl, nil)
	if err != nil {
		return nil, err
	}
	n.prefix = "n-" + rand.Text() + "-"
	n.session.Store(s)
	return s, nil
}

// makePath makes the parent znode of the nodes, and the znodes above it.
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
