package timeout

import (
	"fmt"
	"sync"

	"github.com/heartwheel-go/heartwheel/timeout/internal/groupcommit"
)

// Center sets, moves and removes tasks, and runs those that are due. Programs that only set
// tasks need no Run.
//
// All methods may be called by several goroutines at the same time, by handlers too. The
// verbs come with single tasks and with many: single calls that are made at the same time
// are made one batch, and many tasks in one call are faster still. Where such a call has an
// error, nothing is known of any of its tasks; each Answer has an error of its own besides.
// Making a call again does no harm.
type Center struct {
	cfg     Config
	engine  Engine
	members Members

	sets    groupcommit.Committer[Task, Answer]
	moves   groupcommit.Committer[Move, Answer]
	removes groupcommit.Committer[Removal, Answer]

	circuits circuits

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
	commitBy(&c.sets, c.set)
	commitBy(&c.moves, engine.Move)
	commitBy(&c.removes, engine.Remove)
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
	c.sets.Close()
	c.moves.Close()
	c.removes.Close()
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
