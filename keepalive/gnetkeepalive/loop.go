package gnetkeepalive

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// batchSize is how many decisions an event loop makes before it goes back to its sockets. They take about a millisecond, most
// of it in the kernel, to close connections. Before gnet looks at sockets again, it runs all tasks in its queue, and any new
// ones. So the next batch is sent only after the one before has run. Tests take smaller ones.
var batchSize = 64

// lostAfter is when to ask whether a loop is still there if it has not run its task: a loop
// drops its tasks when it goes down.
const lostAfter = 100 * time.Millisecond

// loops are the event loops with guarded connections of a handler.
type loops struct {
	mu sync.Mutex
	of map[gnet.EventLoop]*loop
}

// enter counts a connection of an event loop.
func (l *loops) enter(events gnet.EventLoop) *loop {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = make(map[gnet.EventLoop]*loop)
	}
	found := l.of[events]
	if found == nil {
		found = &loop{events: events}
		l.of[events] = found
	}
	found.conns++
	return found
}

// leave takes a connection off the count.
func (l *loops) leave(events gnet.EventLoop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.of[events]
	if left.conns--; left.conns == 0 {
		delete(l.of, events)
	}
}

// loop is the adapter.Adapter of the connections of one event loop.
type loop struct {
	events gnet.EventLoop
	conns  int // guarded by loops.mu

	mu       sync.Mutex
	due      []adapter.Binding
	draining bool // a goroutine sends batches

	err error // why the engine is to shut down, or nil; only the loop uses it
}

func conn(b adapter.Binding) gnet.Conn { return b.Conn().(gnet.Conn) }

// isOpen reports whether a connection has not been closed, and is still guarded. After its end
// its descriptor may be somebody else's. It must be called in the event loop.
func isOpen(b adapter.Binding) bool {
	g := guardOf(conn(b))
	return g != nil && g.Binding() == b
}

// Due queues a connection. There is a goroutine only while the queue is not empty.
func (l *loop) Due(b adapter.Binding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = append(l.due, b)
	if !l.draining {
		l.draining = true
		go l.drain()
	}
}

// drain sends batches to the event loop, one after the other has run.
func (l *loop) drain() {
	var lost error
	for batch := l.nextBatch(lost); batch != nil; batch = l.nextBatch(lost) {
		lost = l.run(context.Background(), func() error { return l.decide(batch) })
		runtime.Gosched() // so that the loop finds its queue empty, and looks at its sockets
	}
}

// nextBatch returns the next batch, or nil if there is none, or if the loop is lost: gnet has closed its connections, or
// is about to.
func (l *loop) nextBatch(lost error) []adapter.Binding {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost != nil || len(l.due) == 0 {
		l.due, l.draining = nil, false
		return nil
	}
	n := min(batchSize, len(l.due))
	batch := l.due[:n:n]
	l.due = l.due[n:]
	return batch
}

// run runs a task in the event loop, and waits for it. It returns an error if ctx is done
// first, or the loop has gone down.
func (l *loop) run(ctx context.Context, task func() error) error {
	done := make(chan struct{})
	err := l.events.Execute(ctx, gnet.RunnableFunc(func(context.Context) error {
		defer close(done)
		return task()
	}))
	for err == nil {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lostAfter):
			err = l.events.Execute(ctx, gnet.RunnableFunc(func(context.Context) error { return nil }))
		}
	}
	return err
}

// decide decides about connections, in the event loop. It returns an error if the program wants
// the engine to shut down.
func (l *loop) decide(batch []adapter.Binding) error {
	for _, b := range batch {
		if !isOpen(b) {
			b.Lose() // closed, or its guard was overwritten
			continue
		}
		b.Decide()
		if errors.Is(l.err, gneterrors.ErrEngineShutdown) {
			return l.err
		}
	}
	return nil
}

// Do runs f in the event loop.
func (l *loop) Do(ctx context.Context, _ adapter.Binding, f func()) error {
	return l.run(ctx, func() error {
		f()
		return nil
	})
}

// Control calls f with the socket. It is called in the event loop.
func (l *loop) Control(b adapter.Binding, f func(fd uintptr)) error {
	if !isOpen(b) {
		return net.ErrClosed
	}
	f(uintptr(conn(b).Fd()))
	return nil
}

// Queued returns how many bytes wait in gnet's buffer. It is called in the event loop.
func (l *loop) Queued(b adapter.Binding) int {
	if !isOpen(b) {
		return 0
	}
	return conn(b).OutboundBuffered()
}

// Peer returns the address of the peer. It is called in the event loop.
func (l *loop) Peer(b adapter.Binding) net.Addr {
	if !isOpen(b) {
		return nil
	}
	if u, ok := conn(b).SafeContext().(*unnamed); ok {
		return u.proxy
	}
	return conn(b).RemoteAddr()
}
