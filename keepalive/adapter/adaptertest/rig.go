package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	ms      = time.Millisecond
	tick    = 10 * ms
	timeout = 320 * ms    // of a connection, unless its test sets another
	beat    = timeout / 8 // how often a living peer speaks
	late    = time.Minute // how late an end may come
	eternal = time.Minute // how long a test waits
	flood   = 16 << 20    // bytes of an answer that is more than a socket takes
)

// rig is what a test works with: a server of the adapter, and a note of each end.
type rig struct {
	*testing.T
	adapter Adapter
	k       *keepalive.Keeper
	addr    net.Addr
	closed  bool // the Keeper

	mu      sync.Mutex
	dialed  int
	clients []*client
	peers   map[string]*peer // by the names of the clients
	conns   map[any]*peer
	ends    map[any][]end
	stalled map[string]*stall // by the names of the clients
	handled int               // lines
}

// peer is the server's side of a client.
type peer struct {
	name    string
	conn    any
	guard   *keepalive.Guard // nil if it is not guarded
	context context.Context
	guarded bool // when it said its name
}

// end is one call of OnClose.
type end struct {
	at     time.Time
	reason keepalive.Reason
}

// stall is a blocking handler.
type stall struct {
	r           *rig
	begun, over chan struct{}
	once        sync.Once
}

// serve starts a Keeper, and a server of the adapter.
func (r *rig) serve(cfg keepalive.Config) {
	r.Helper()
	r.peers, r.conns, r.ends = make(map[string]*peer), make(map[any]*peer), make(map[any][]end)
	r.stalled = make(map[string]*stall)
	if cfg.Timeout == 0 {
		cfg.Timeout = timeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler) // for panics on purpose
	}
	cfg.Tick = tick
	onClose := cfg.OnClose
	cfg.OnClose = func(conn any, reason keepalive.Reason) {
		r.note(conn, reason)
		if onClose != nil {
			onClose(conn, reason)
		}
	}
	k, err := keepalive.New(cfg)
	if errors.Is(err, keepalive.ErrArgument) && cfg.Activity == keepalive.ActivityKernel {
		r.Skip(err)
	}
	require.NoError(r, err)
	r.k = k
	r.Cleanup(func() { require.NoError(r, k.Close()) })
	r.Cleanup(r.requireEachEndOnce)
	r.addr = r.adapter.Start(r.T, k, r.handle)
	r.Cleanup(r.hangUp) // first, or the server could wait for a handler
}

// note notes an end.
func (r *rig) note(conn any, reason keepalive.Reason) {
	now := time.Now()
	if _, _, guarded := keepalive.Of(conn).Deadline(); guarded || keepalive.Touch(conn) {
		r.Errorf("%v: a connection is still guarded in OnClose", reason)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.conns[conn]; p != nil && keepalive.Of(conn) != p.guard {
		r.Errorf("%v: a connection has no guard, or another one, in OnClose", reason)
	}
	r.ends[conn] = append(r.ends[conn], end{now, reason})
}

// handle is the Handler.
func (r *rig) handle(conn any, line string) (answer []byte, stay bool) {
	verb, rest, _ := strings.Cut(line, " ")
	r.mu.Lock()
	r.handled++
	stalled := r.stalled[rest]
	r.mu.Unlock()
	switch verb {
	case "name":
		r.meet(rest, conn)
		keepalive.Touch(conn)
	case "user":
		keepalive.Touch(conn)
		if g := keepalive.Of(conn); g.SetKey(rest) != nil {
			g.Close(keepalive.ReasonFull)
			return nil, true
		}
	case "beat":
		keepalive.Touch(conn)
	case "pong":
		keepalive.Of(conn).Pong()
	case "stall":
		close(stalled.begun)
		<-stalled.over
	case "flood":
		return make([]byte, flood), true
	case "hush":
		return nil, true
	case "close":
		return nil, false
	case "echo":
	default:
		r.Errorf("the server hands %q to the handler", line)
	}
	return []byte(line + "\n"), true
}

// meet notes the server's side of a client. Its name may have the number of an attempt to dial.
func (r *rig) meet(numbered string, conn any) {
	g := keepalive.Of(conn)
	name, _, _ := strings.Cut(numbered, " ")
	p := &peer{name: name, conn: conn, guard: g, context: g.Context()}
	p.guarded = !errors.Is(context.Cause(p.context), keepalive.ErrNotGuarded)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers[numbered], r.conns[conn] = p, p
}

// nameOf returns the name of a connection's client, or "" before it has said it.
func (r *rig) nameOf(conn any) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.conns[conn]; p != nil {
		return p.name
	}
	return ""
}

// endsOf returns the ends of a connection: none or one.
func (r *rig) endsOf(conn any) []end {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends[conn]
}

func (r *rig) newName() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dialed++
	return fmt.Sprintf("client%d", r.dialed)
}

// eventually waits for a condition.
func (r *rig) eventually(condition func() bool, why string) {
	r.Helper()
	for begin := time.Now(); !condition(); time.Sleep(ms) {
		require.Less(r, time.Since(begin), eternal, why)
	}
}

// attempt repeats f until it reports true: the suite was quick enough for its own timeouts. If f reports false, it has
// seen that the suite was late, so a busy machine may try for long.
func (r *rig) attempt(f func() bool) {
	r.Helper()
	for begin := time.Now(); !f(); {
		require.Less(r, time.Since(begin), 5*eternal, "no attempt succeeds: the server does not answer, or the machine is too slow")
	}
}

// hangUp closes all clients, and ends all stalls.
func (r *rig) hangUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.stalled {
		s.end()
	}
	for _, c := range r.clients {
		c.Close()
	}
}

// settle is the end of a test: all connections have to go.
func (r *rig) settle() {
	r.hangUp()
	if r.closed {
		return
	}
	r.drain(0)
	r.eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return uint64(len(r.ends)) == r.k.Stats().Opened
	}, "OnClose is told of each connection")
}

// drain closes all connections, evenly spread.
func (r *rig) drain(spread time.Duration) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eternal)
	defer cancel()
	require.NoError(r, r.k.Drain(ctx, spread))
}

// requireEachEndOnce compares Config.OnClose, Stats and contexts after the server has stopped.
// They agree about each end.
func (r *rig) requireEachEndOnce() {
	if r.Failed() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		require.Empty(r, r.ends, "OnClose after Keeper.Close")
		return
	}
	closed := map[keepalive.Reason]uint64{}
	for conn, ends := range r.ends {
		require.Len(r, ends, 1, "OnClose is called once for each connection")
		closed[ends[0].reason]++
		if p := r.conns[conn]; p != nil && p.guarded {
			require.Equal(r, error(ends[0].reason), context.Cause(p.context), "the cause of Guard.Context")
		}
	}
	s := r.k.Stats()
	require.Equal(r, closed, s.Closed, "Stats.Closed")
	require.Zero(r, s.Conns, "Stats.Conns")
	require.Zero(r, s.Leaving, "Stats.Leaving")
}
