package bench

import (
	"net"
	"time"

	"github.com/lesismal/nbio"
	"github.com/lesismal/nbio/logging"
)

// maxSockets is how many connections fit twice, both their ends, into the 20,000
// descriptors of a process.
const maxSockets = 9000

// dial opens n connections to addr, which sit in the hands of accept when it
// returns.
func dial(addr string, n int, accept func() net.Conn) (theirs, ours []net.Conn) {
	for range n {
		theirs = append(theirs, connect(addr))
		ours = append(ours, accept())
	}
	return theirs, ours
}

func connect(addr string) net.Conn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	return c
}

func listen() net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return ln
}

func accept(ln net.Listener) net.Conn {
	c, err := ln.Accept()
	if err != nil {
		panic(err)
	}
	return c
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// readDeadlines is SetReadDeadline on real TCP connections.
type readDeadlines struct {
	setting
	theirs, ours []net.Conn
}

func newReadDeadlines(s setting) deadlines {
	ln := listen()
	defer ln.Close()
	r := &readDeadlines{setting: s}
	r.theirs, r.ours = dial(ln.Addr().String(), s.conns, func() net.Conn { return accept(ln) })
	return r
}

func (r *readDeadlines) add(i int, d time.Duration) { _ = r.ours[i].SetReadDeadline(time.Now().Add(d)) }
func (r *readDeadlines) touch(i int)                { r.add(i, r.timeout) }
func (r *readDeadlines) remove(i int)               { _ = r.ours[i].SetReadDeadline(time.Time{}) }
func (r *readDeadlines) close()                     { closeAll(r.theirs); closeAll(r.ours) }

// nbioConns is the read deadline of nbio's connections.
type nbioConns struct {
	readDeadlines
	engine *nbio.Engine
}

func newNbio(s setting) deadlines {
	logging.SetLevel(logging.LevelNone)
	engine := nbio.NewEngine(nbio.Config{Network: "tcp", Addrs: []string{"127.0.0.1:0"}})
	opened := make(chan net.Conn)
	engine.OnOpen(func(c *nbio.Conn) { opened <- c })
	if err := engine.Start(); err != nil {
		panic(err)
	}
	if len(engine.Addrs) == 0 {
		panic("nbio listens nowhere")
	}
	n := &nbioConns{readDeadlines: readDeadlines{setting: s}, engine: engine}
	n.theirs, n.ours = dial(engine.Addrs[0], s.conns, func() net.Conn { return <-opened })
	return n
}

func (n *nbioConns) close() {
	n.readDeadlines.close()
	n.engine.Stop()
}
