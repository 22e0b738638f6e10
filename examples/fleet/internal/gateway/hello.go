package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	// patience is how long a client waits for its WELCOME at most.
	patience = 10 * time.Second

	// registrars is how many registrations wait for Redis at the same time, and are in one
	// batch.
	registrars = 512
)

var (
	errDraining = errors.New("draining")
	errAway     = errors.New("try again: there is no answer from Redis")
)

// client is a connection after its HELLO.
type client struct {
	conn  gnet.Conn
	id    string
	life  context.Context // of the connection
	asked time.Time

	mu   sync.Mutex
	over bool // BYE was said, and no WELCOME may follow
}

// clients are the connections after their HELLO. Some of them wait to be registered.
type clients struct {
	mu      sync.RWMutex // read for each line except HELLO
	all     map[gnet.Conn]*client
	waiting []*client
	running int
	closed  bool
	work    sync.WaitGroup
}

// line is the server's Line: it takes HELLO, and leaves all else to the server. It runs in the
// connection's event loop, so the connection is open meanwhile.
func (g *gateway) line(c gnet.Conn, line []byte) (answer []byte, handled bool) {
	verb, id, _ := bytes.Cut(line, []byte(" "))
	if string(verb) != "HELLO" {
		return nil, g.overdue(c)
	}
	if err := g.hello(c, string(id)); err != nil {
		return []byte("ERR " + err.Error()), true
	}
	return nil, true
}

// overdue closes a connection without a session if its time for one is over, and reports
// whether it did. It runs for each line except HELLO. The Keeper closes a silent connection.
func (g *gateway) overdue(c gnet.Conn) bool {
	if g.grace == 0 || g.clients.has(c) {
		return false
	}
	if info, ok := keepalive.Of(c).Info(); !ok || info.Age < g.grace {
		return false
	}
	_, _ = fmt.Fprintf(c, "BYE no session for %v\n", g.grace)
	_ = c.EventLoop().Close(c) // now, and not after the lines that follow
	return true
}

// hello starts a registration. The registration waits for Redis, so it is not done here.
func (g *gateway) hello(c gnet.Conn, id string) error {
	if id == "" || strings.ContainsFunc(id, isUnseen) {
		return fmt.Errorf("session %.100q, must be a word without spaces or what can't be seen: HELLO session", id)
	}
	life := keepalive.Of(c).Context()
	if life.Err() != nil {
		return context.Cause(life)
	}
	all := &g.clients
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return errDraining
	}
	if old := all.all[c]; old != nil {
		return fmt.Errorf("session %.100q is this connection's, which can have one", old.id)
	}
	cl := &client{conn: c, id: id, life: life, asked: time.Now()}
	all.all[c] = cl
	all.waiting = append(all.waiting, cl)
	if all.running < registrars {
		all.running++
		all.work.Go(g.registerSome)
	}
	return nil
}

// isUnseen reports whether a reader of names can't see a character, such as a mark for the
// direction of writing. With such characters two sessions would look like one, or one like
// two.
func isUnseen(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// closed is the Keeper's OnClose.
func (g *gateway) closed(conn any, _ keepalive.Reason) {
	c, _ := conn.(gnet.Conn)
	g.clients.mu.Lock()
	delete(g.clients.all, c)
	g.clients.mu.Unlock()
}

// registerSome registers clients until none waits.
func (g *gateway) registerSome() {
	all := &g.clients
	for {
		all.mu.Lock()
		if len(all.waiting) == 0 {
			all.running--
			all.mu.Unlock()
			return
		}
		cl := all.waiting[0]
		all.waiting[0], all.waiting = nil, all.waiting[1:]
		all.mu.Unlock()
		g.register(cl)
	}
}

func (g *gateway) register(cl *client) {
	ctx, cancel := context.WithDeadline(cl.life, cl.asked.Add(patience))
	defer cancel()
	session, err := g.registerOn(ctx, cl)
	var reason fleet.Reason
	switch {
	case err == nil:
		kind := "new"
		if session.Resumed() {
			kind = "resumed"
		} else if session.Moved() {
			kind = "moved"
		}
		cl.say(fmt.Sprintf("WELCOME %d %s\n", session.Epoch(), kind), false)
	case cl.life.Err() != nil: // nobody is there to be told
	case errors.As(err, &reason): // moved to another connection, or kicked, while it was registered
		cl.say("BYE "+reason.String()+"\n", true)
		_ = cl.conn.Close()
	default:
		g.forget(cl)
		cl.say(fmt.Sprintf("ERR %v\n", g.explain(cl, err)), false)
	}
}

func (g *gateway) registerOn(ctx context.Context, cl *client) (*fleet.Session, error) {
	select {
	case <-g.open: // there is a node
		return g.node.Register(ctx, cl.conn, cl.id, nil)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// explain returns the error for a client. Errors of Redis are for the log.
func (g *gateway) explain(cl *client, err error) error {
	switch {
	case errors.Is(err, fleet.ErrDraining) || errors.Is(err, fleet.ErrClosed):
		return errDraining
	case errors.Is(err, fleet.ErrArgument) || errors.Is(err, fleet.ErrFull):
		return err
	}
	g.log.Warn("a session can't be registered", "session", cl.id, "error", err)
	return errAway
}

// forget lets a client say HELLO again.
func (g *gateway) forget(cl *client) {
	g.clients.mu.Lock()
	defer g.clients.mu.Unlock()
	if g.clients.all[cl.conn] == cl {
		delete(g.clients.all, cl.conn)
	}
}

// bye is the last word to a client. Its session is taken away.
func (g *gateway) bye(s *fleet.Session, reason fleet.Reason) {
	conn, _ := s.Conn().(gnet.Conn)
	g.clients.mu.RLock()
	cl := g.clients.all[conn]
	g.clients.mu.RUnlock()
	if cl != nil {
		cl.say("BYE "+reason.String()+"\n", true)
	}
}

// say writes to a client, in its event loop: the loop knows whether the connection is open.
func (cl *client) say(text string, last bool) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if !cl.over {
		cl.over = last
		_ = cl.conn.AsyncWrite([]byte(text), nil)
	}
}

// has reports whether a connection has said HELLO, and was not refused.
func (all *clients) has(c gnet.Conn) bool {
	all.mu.RLock()
	defer all.mu.RUnlock()
	return all.all[c] != nil
}

// close refuses each HELLO from now on.
func (all *clients) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
}
