package timeout

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Center sets, moves and removes tasks, and runs those that are due. Programs that only set
// tasks need no Run.
//
// All methods may be called by several goroutines at the same time, by handlers too. The
// verbs come with single tasks and with many: single calls that are made at the same time
// are made one batch, and many tasks in one call are faster still. An error of a call with many
// tasks says that nothing is known of any of them. The Err of an Answer is about that task alone:
// of an engine of several parts, one may be away. Making a call again does no harm.
type Center struct {
	cfg     Config
	engine  Engine
	members Members

	sets    *lanes[Task]
	moves   *lanes[Move]
	removes *lanes[Removal]

	circuits circuits
	hears    atomic.Bool // whether the engine tells of new tasks

	// mu guards what follows. It is not held while the engine or a handler is called.
	mu       sync.Mutex
	handlers map[string]Handler
	topics   map[string]Topic // that are known to be there
	workers  map[string]*worker
	view     View
	running  bool
	closed   bool
	left     int           // handlers that outlived their workers
	changed  chan struct{} // has one element where topics or handlers are to be looked at
	making   chan struct{} // has one element while somebody makes topics

	dismissed sync.WaitGroup // workers that end
}

// New returns a centre on an engine, which stays the caller's to close, after the centre. It
// does not ask the engine for anything. The error wraps ErrArgument.
func New(engine Engine, cfg Config) (*Center, error) {
	if engine == nil {
		return nil, fmt.Errorf("%w: engine nil, must be one", ErrArgument)
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Center{
		cfg:      cfg,
		engine:   engine,
		members:  cfg.Members,
		handlers: make(map[string]Handler),
		topics:   make(map[string]Topic),
		workers:  make(map[string]*worker),
		changed:  make(chan struct{}, 1),
		making:   make(chan struct{}, 1),
	}
	if c.members == nil {
		c.members = engine
	}
	c.sets = newLanes(engine, Task.Key, c.set)
	c.moves = newLanes(engine, func(m Move) Key { return m.Key }, engine.Move)
	c.removes = newLanes(engine, func(r Removal) Key { return r.Key }, engine.Remove)
	c.circuits.init(cfg)
	return c, nil
}

// Node returns the name under which this centre leases tasks.
func (c *Center) Node() string { return c.cfg.Node }

// Handle has the tasks of a topic run by a function of this process, other than those with a
// callback of their own. It may be called before and while the centre runs, and again to
// change the function; nil ends it. The error wraps ErrArgument.
func (c *Center) Handle(topic string, handler Handler) error {
	if err := CheckTopic(topic); err != nil {
		return err
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

// look has a centre that runs look at topics and handlers soon.
func (c *Center) look() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// View returns which nodes this one knows of, and what it goes by: no nodes before the first
// answer.
func (c *Center) View() View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

// Close has all further calls return ErrClosed, and waits for those that are under way. It
// does not end Run, whose context does. It is idempotent.
func (c *Center) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.sets.close()
	c.moves.close()
	c.removes.close()
	return nil
}

func (c *Center) open() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	return nil
}
