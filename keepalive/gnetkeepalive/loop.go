package gnetkeepalive

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	// batchSize is how many connections an event loop decides about before it
	// goes back to its sockets: about a millisecond, most of which the kernel
	// takes for closing them. gnet runs all tasks that it finds, and those that
	// come meanwhile, before it looks at sockets again; so the next batch is
	// sent only when the one before has run.
	batchSize = 64

	// lostAfter is when to ask whether a loop is still there that has not run
	// its batch: one that goes down drops its tasks.
	lostAfter = 100 * time.Millisecond

	// busyFor is how long a batch waits at most for a loop that nobody blocks.
	busyFor = 50 * time.Millisecond
)

// loops are the event loops that have connections which a Keeper guards.
type loops struct {
	keeper *keepalive.Keeper
	mu     sync.Mutex
	of     map[gnet.EventLoop]*loop

	// looks says that OnTraffic has to look for something: that there was a connection
	// that is touched for what is read, or that lingers before it is closed. With
	// ActivityManual there is none of the first, and with ActivityKernel only where a
	// socket can't tell.
	looks atomic.Bool
}

// loop decides about the connections of one event loop whose deadlines have
// passed.
type loop struct {
	keeper *keepalive.Keeper
	events gnet.EventLoop
	conns  int // guarded by loops.mu

	mu       sync.Mutex
	waiting  []silent
	draining bool // a goroutine is at it

	// busy is when the loop last came back to its batches after more than busyFor.
	// Only the loop uses it.
	busy time.Time
}

// silent is a connection whose deadline has passed.
type silent struct {
	guard *guard
	conn  gnet.Conn
	since time.Time
}

// loopsOf returns the loops of a Keeper.
func loopsOf(k *keepalive.Keeper) *loops {
	l, ok := k.Shelf.Load(shelf{})
	if !ok {
		l, _ = k.Shelf.LoadOrStore(shelf{}, &loops{keeper: k})
	}
	return l.(*loops)
}

// shelf is the key by which a Keeper keeps its loops.
type shelf struct{}

func (l *loops) enter(events gnet.EventLoop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = make(map[gnet.EventLoop]*loop)
	}
	found := l.of[events]
	if found == nil {
		found = &loop{keeper: l.keeper, events: events}
		l.of[events] = found
	}
	found.conns++
}

func (l *loops) leave(events gnet.EventLoop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.of[events]
	if left.conns--; left.conns == 0 {
		delete(l.of, events)
	}
}

// decideLater has the event loop of a connection decide about it, unless that
// connection has been closed.
func (l *loops) decideLater(g *guard, c gnet.Conn) {
	l.mu.Lock()
	found := l.of[c.EventLoop()]
	l.mu.Unlock()
	if found != nil {
		found.decideLater(g, c)
	}
}

// decideLater queues a connection. There is a goroutine only while the queue is
// not empty.
func (l *loop) decideLater(g *guard, c gnet.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, silent{g, c, time.Now()})
	if !l.draining {
		l.draining = true
		go l.drain()
	}
}

// drain sends batches to the event loop, one after the other has run.
func (l *loop) drain() {
	for {
		batch := l.nextBatch()
		if batch == nil {
			return
		}
		done, sent := make(chan struct{}), time.Now()
		err := l.events.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
			defer close(done)
			if time.Since(sent) > busyFor {
				l.busy = time.Now()
			}
			return l.decide(batch)
		}))
		if err != nil || !l.wait(done) {
			l.giveUp()
			return
		}
	}
}

func (l *loop) nextBatch() []silent {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.waiting, l.draining = nil, false
		return nil
	}
	n := min(batchSize, len(l.waiting))
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return batch
}

// wait waits until a batch has run. It reports false where it never will.
func (l *loop) wait(done <-chan struct{}) bool {
	for {
		select {
		case <-done:
			return true
		case <-time.After(lostAfter):
			alive := gnet.RunnableFunc(func(context.Context) error { return nil })
			if l.events.Execute(context.Background(), alive) != nil {
				return false
			}
		}
	}
}

// giveUp is for a loop that has gone down. gnet has closed its connections, or
// is about to.
func (l *loop) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting, l.draining = nil, false
}

// decide runs in the event loop. It returns an error where the handler wants the
// engine to shut down.
func (l *loop) decide(batch []silent) error {
	for _, s := range batch {
		if !s.isOpen() {
			// Closed meanwhile, and its descriptor may be somebody else's; or the
			// guard was overwritten, and nobody can have touched it.
			l.keeper.Lose(&s.guard.Guard)
			continue
		}
		if !l.keeper.Expire(&s.guard.Guard, func() keepalive.Heard { return l.ask(s) }) {
			continue
		}
		if err := l.end(s); errors.Is(err, gneterrors.ErrEngineShutdown) {
			return err
		}
	}
	return nil
}

// ask asks the socket of a connection. What waited in it while the loop was busy has
// been read by now, which with ActivityKernel nobody has noticed: so a connection of
// which anything was read since the last time gets a timeout for that.
func (l *loop) ask(s silent) keepalive.Heard {
	heard := l.keeper.Ask(&s.guard.Guard, uintptr(s.conn.Fd()))
	if s.guard.Reads() || l.keeper.Activity() != keepalive.ActivityKernel {
		return heard
	}
	read := uint32(heard.Read) != s.guard.Seen
	s.guard.Seen = uint32(heard.Read)
	if heard.More <= 0 && read && s.since.Before(l.busy) {
		return heard.Now(l.keeper)
	}
	return heard
}
