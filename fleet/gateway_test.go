package fleet

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// gatewayConfig is what a gateway of the tests is told, in its own process, too.
type gatewayConfig struct {
	URL, Prefix, Node, Listen            string
	Lease, Renew, Timeout, Sweep, Resume time.Duration
	Silence                              time.Duration // of the Keeper
	Outlive                              bool
}

// gateway is a node with a Keeper. Clients connect to it by TCP. A client's first line is its id, and
// the answer is its epoch. The answer to each later line is the time, in µs, and whether the session
// was alive after that.
type gateway struct {
	node   *Node
	keeper *keepalive.Keeper
	ln     net.Listener
	conns  sync.WaitGroup
}

// happening is an event told to a gateway by its node: the end of a session ("offline"), or a
// session taken from its connection ("end").
type happening struct {
	Kind    string
	By      string // the telling node
	Session string
	Epoch   int64
	Reason  Reason
	At      int64 // in µs
}

func (c gatewayConfig) node(say func(happening)) Config {
	cfg := quick(c.Prefix, c.Node)
	cfg.Lease, cfg.Renew, cfg.Timeout, cfg.Sweep, cfg.Resume = c.Lease, c.Renew, c.Timeout, c.Sweep, c.Resume
	cfg.Outlive = c.Outlive
	cfg.OnOffline = func(_ context.Context, o Offline) error {
		say(happening{"offline", c.Node, o.Session, o.Epoch, o.Reason, time.Now().UnixMicro()})
		return nil
	}
	cfg.OnEnd = func(s *Session, reason Reason) {
		say(happening{"end", c.Node, s.ID(), s.Epoch(), reason, time.Now().UnixMicro()})
	}
	return cfg
}

func openGateway(c gatewayConfig, say func(happening)) (*gateway, error) {
	keeper, err := keepalive.New(keepalive.Config{Timeout: c.Silence})
	if err != nil {
		return nil, err
	}
	cfg := c.node(say)
	cfg.Keeper = keeper
	node, err := Open(context.Background(), c.URL, cfg)
	if err != nil {
		keeper.Close()
		return nil, err
	}
	ln, err := net.Listen("tcp4", c.Listen)
	if err != nil {
		node.Close()
		keeper.Close()
		return nil, err
	}
	g := &gateway{node: node, keeper: keeper, ln: keeper.Listener(ln)}
	g.conns.Go(g.accept)
	return g, nil
}

func (g *gateway) accept() {
	for {
		conn, err := g.ln.Accept()
		if err != nil {
			return
		}
		g.conns.Go(func() { g.serve(conn) })
	}
}

func (g *gateway) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	if !lines.Scan() {
		return
	}
	session, err := g.node.Register(context.Background(), conn, lines.Text(), nil)
	if err != nil {
		fmt.Fprintln(conn, "no:", err)
		return
	}
	_, err = fmt.Fprintln(conn, session.Epoch())
	for err == nil && lines.Scan() {
		at := time.Now().UnixMicro()
		_, err = fmt.Fprintln(conn, at, session.Alive())
	}
}

// close ends the gateway like a replaced one: sessions wait to be resumed elsewhere.
func (g *gateway) close() error {
	g.ln.Close()
	err := g.node.Drain(context.Background())
	g.node.Close()
	g.keeper.Close()
	g.conns.Wait()
	return err
}

// ledger has what all gateways were told, in this process and in others.
type ledger struct {
	mu  sync.Mutex
	all []happening
}

func (l *ledger) note(h happening) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, h)
}

// of returns what has happened of a kind, by session.
func (l *ledger) of(kind string) map[string][]happening {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make(map[string][]happening)
	for _, h := range l.all {
		if h.Kind == kind {
			found[h.Session] = append(found[h.Session], h)
		}
	}
	return found
}
