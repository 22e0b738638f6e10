package timeout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Center sets, moves and removes tasks, and runs the due ones. Programs that only set tasks
// need no Run.
//
// Several goroutines may call all methods at the same time, and so may handlers. The verbs take
// single tasks or many. Simultaneous single calls become one batch; many tasks in one call are
// faster still. After an error of a call with many tasks, nothing is known of any of them. The
// Err of an Answer is about that task alone: a part of the engine may be away. Making a call
// again does no harm.
type Center struct {
	cfg     Config
	engine  engine.Engine
	members engine.Members

	sets    *verb[Task]
	moves   *verb[Move]
	removes *verb[Removal]
	replays *verb[Key]

	fairQueue fairQueue
	circuits  circuits
	hears     atomic.Bool // whether the engine tells of new tasks

	// mu guards the fields below. It is not held while the engine or a handler is called.
	mu          sync.Mutex
	handlers    map[string]Handler
	topics      map[string]Topic    // the known topics
	revisions   map[string]revision // looks to come, by topic
	learned     map[string]Topic    // those made or changed here since Run began to read all
	workers     map[string]*worker
	dispatchers map[string]*dispatcher
	view        engine.View
	began       time.Time         // when the heartbeat that returned it began
	lonely      map[string]bool   // the topics with due tasks that nobody serves, if this node is the leader
	bare        map[string]string // by topic, a node of the view that has its handler and makes no callbacks, unless told
	unserved    []string          // the topics that the log has as unserved
	running     bool
	closed      bool
	left        int           // handlers that outlived their workers
	changed     chan struct{} // has one element if topics or handlers have changed
	making      chan struct{} // has one element while somebody makes topics
	held        chan struct{} // has one element if a worker holds: see hold

	pulling  context.Context // ends with the requests at the dispatchers
	endPulls context.CancelCauseFunc

	calls     sync.WaitGroup // calls under way, but for Run
	dismissed sync.WaitGroup // workers that end
	serving   sync.WaitGroup // dispatchers that ask
}

// New returns a center on an engine. The caller closes the engine, after the center. New does
// not call the engine. The error wraps ErrArgument.
func New(e engine.Engine, cfg Config) (*Center, error) {
	if e == nil {
		return nil, fmt.Errorf("%w: engine nil, must be one", ErrArgument)
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Center{
		cfg:         cfg,
		engine:      e,
		members:     cfg.Members,
		handlers:    make(map[string]Handler),
		topics:      make(map[string]Topic),
		learned:     make(map[string]Topic),
		revisions:   make(map[string]revision),
		workers:     make(map[string]*worker),
		dispatchers: make(map[string]*dispatcher),
		changed:     make(chan struct{}, 1),
		making:      make(chan struct{}, 1),
		held:        make(chan struct{}, 1),
		fairQueue:   fairQueue{limit: cfg.Concurrency},
		circuits:    circuits{failures: cfg.Circuit, wait: cfg.CircuitWait, all: make(map[string]*circuit), kept: circuitsKept},
	}
	if c.members == nil {
		c.members = e
	}
	c.sets = &verb[Task]{c: c, check: c.checkTask, key: Task.Key, do: c.set, wakes: true, ends: engine.EndedBySet}
	c.moves = &verb[Move]{c: c, check: Move.Check, key: func(m Move) Key { return m.Key }, do: e.Move, wakes: true}
	c.removes = &verb[Removal]{c: c, check: Removal.Check, key: func(r Removal) Key { return r.Key }, do: e.Remove, ends: engine.EndedByRemoval}
	c.replays = &verb[Key]{c: c, check: Key.Check, key: func(key Key) Key { return key }, do: e.Replay, wakes: true}
	c.pulling, c.endPulls = context.WithCancelCause(context.Background())
	return c, nil
}

// Node returns the name under which this center leases tasks.
func (c *Center) Node() string { return c.cfg.Node }

// Handle makes a function of this process run the tasks of a topic, except for those with a
// callback of their own: those need Config.Callers, here and on each other node with a handler for
// the topic, or they wait. It may be called before and while the center runs. Another call
// replaces the function; nil removes it. The error wraps ErrArgument.
func (c *Center) Handle(topic string, handler Handler) error {
	if err := errors.Join(engine.CheckTopic(topic), checkReserved(topic)); err != nil {
		return err
	}
	if handler != nil {
		handler = c.wrapped(handler)
	}
	c.mu.Lock()
	if handler == nil {
		delete(c.handlers, topic)
	} else {
		c.handlers[topic] = handler
	}
	c.mu.Unlock()
	c.look()
	return nil
}

// look makes a running center look at topics and handlers soon.
func (c *Center) look() { signal(c.changed) }

// View returns this node's present view of the nodes. It has no nodes before the first answer.
func (c *Center) View() engine.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

// Close makes all further calls return ErrClosed, and waits for those under way. Calls of Pull that wait
// end at once. Close does not end Run; the context of Run does. It is idempotent.
func (c *Center) Close() error {
	c.mu.Lock()
	c.closed = true
	c.endPulls(ErrClosed)
	c.mu.Unlock()
	c.calls.Wait()
	c.serving.Wait()
	c.sets.close()
	c.moves.close()
	c.removes.close()
	return nil
}

// during makes a call that Close waits for. After Close it returns ErrClosed.
func during[R any](c *Center, call func() (R, error)) (result R, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return result, ErrClosed
	}
	c.calls.Add(1)
	c.mu.Unlock()
	defer c.calls.Done()
	return call()
}

// checked is during for a call with arguments. It returns the error of the first invalid one.
func checked[A, R any](c *Center, check func(A) error, args []A, call func() (R, error)) (R, error) {
	return during(c, func() (result R, err error) {
		for _, arg := range args {
			if err := check(arg); err != nil {
				return result, err
			}
		}
		return call()
	})
}
