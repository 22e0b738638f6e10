package timeout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
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

	sets    committer[Task]
	moves   committer[Move]
	removes committer[Removal]

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
	}
	if c.members == nil {
		c.members = engine
	}
	c.sets.do, c.moves.do, c.removes.do = c.set, engine.Move, engine.Remove
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

// Set has a task wait for its action time, whatever it was before. The answer says what it
// was, and has the version that it has now. A topic that is not there yet is made, with
// Config.Topic. With Task.IfAbsent nothing is changed where the task waits, runs or is
// dead, which Answer.Was says.
func (c *Center) Set(ctx context.Context, task Task) (Answer, error) {
	if err := c.prepare(ctx, task); err != nil {
		return Answer{}, err
	}
	answer, err := c.sets.call(ctx, task)
	if err == nil {
		c.wake(task.Topic, answer.Due)
	}
	return answer, err
}

// SetAll is Set for many tasks. Where the same key is there several times, the last one
// stays. The error wraps ErrArgument, and nothing is done, where one task is invalid.
func (c *Center) SetAll(ctx context.Context, tasks []Task) ([]Answer, error) {
	for _, task := range tasks {
		if err := c.prepare(ctx, task); err != nil {
			return nil, err
		}
	}
	answers, err := c.set(ctx, tasks)
	if err == nil {
		c.wakeAll(len(answers), func(i int) (string, Answer) { return tasks[i].Topic, answers[i] })
	}
	return answers, err
}

// set sets tasks, and once more those whose topic has been dropped since it was known.
func (c *Center) set(ctx context.Context, tasks []Task) ([]Answer, error) {
	answers, err := c.engine.Set(ctx, tasks)
	if err != nil {
		return nil, err
	}
	var again []int
	for i, answer := range answers {
		if errors.Is(answer.Err, ErrNotFound) {
			again = append(again, i)
			c.forget(tasks[i].Topic)
		}
	}
	if len(again) == 0 {
		return answers, nil
	}
	rest := make([]Task, len(again))
	for i, at := range again {
		rest[i] = tasks[at]
		if _, err := c.ensure(ctx, tasks[at].Topic); err != nil {
			return nil, err
		}
	}
	repeated, err := c.engine.Set(ctx, rest)
	if err != nil {
		return nil, err
	}
	for i, at := range again {
		answers[at] = repeated[i]
	}
	return answers, nil
}

// prepare checks a task and has its topic be there.
func (c *Center) prepare(ctx context.Context, task Task) error {
	if err := c.open(); err != nil {
		return err
	}
	if err := task.Check(); err != nil {
		return err
	}
	if task.Callback != nil {
		if err := c.checkCallback(*task.Callback); err != nil {
			return err
		}
	}
	_, err := c.ensure(ctx, task.Topic)
	return err
}

// checkCallback asks the callback's Caller, where this node has it.
func (c *Center) checkCallback(call Callback) error {
	if caller := c.cfg.Callers[call.Kind]; caller != nil {
		return caller.Check(call)
	}
	if len(c.cfg.Callers) > 0 {
		return fmt.Errorf("%w: callback of kind %q, must be one of %q", ErrArgument, call.Kind, slices.Sorted(maps.Keys(c.cfg.Callers)))
	}
	return nil // a node that makes no calls can't know
}

// ensure returns a topic, and makes it where it is not there.
func (c *Center) ensure(ctx context.Context, name string) (Topic, error) {
	c.mu.Lock()
	topic, known := c.topics[name]
	c.mu.Unlock()
	if known {
		return topic, nil
	}
	topic = c.cfg.Topic
	topic.Name = name
	topic, err := c.engine.SetTopic(ctx, topic, true)
	if err == nil {
		c.learn(topic)
	}
	return topic, err
}

func (c *Center) learn(topic Topic) {
	c.mu.Lock()
	c.topics[topic.Name] = topic
	c.mu.Unlock()
	c.look()
}

// Move changes a task's action time, where it waits: Answer.Was is Pending then. A task that
// runs, has ended or is not there stays as it is.
func (c *Center) Move(ctx context.Context, key Key, due time.Time) (Answer, error) {
	return c.move(ctx, Move{Key: key, Due: due})
}

// MoveAfter is Move to a time from now, by the engine's clock.
func (c *Center) MoveAfter(ctx context.Context, key Key, d time.Duration) (Answer, error) {
	return c.move(ctx, Move{Key: key, After: d})
}

func (c *Center) move(ctx context.Context, move Move) (Answer, error) {
	if err := c.checkMove(move); err != nil {
		return Answer{}, err
	}
	answer, err := c.moves.call(ctx, move)
	if err == nil {
		c.wake(move.Topic, answer.Due)
	}
	return answer, err
}

// MoveAll is Move for many tasks.
func (c *Center) MoveAll(ctx context.Context, moves []Move) ([]Answer, error) {
	for _, move := range moves {
		if err := c.checkMove(move); err != nil {
			return nil, err
		}
	}
	answers, err := c.engine.Move(ctx, moves)
	if err == nil {
		c.wakeAll(len(answers), func(i int) (string, Answer) { return moves[i].Topic, answers[i] })
	}
	return answers, err
}

func (c *Center) checkMove(move Move) error {
	if err := c.open(); err != nil {
		return err
	}
	return Task{Topic: move.Topic, ID: move.ID, Due: move.Due, After: move.After}.Check()
}

// Remove ends a task that waits, runs or is dead; Answer.Was says which. The context of a
// handler that runs it ends within a third of its lease.
func (c *Center) Remove(ctx context.Context, key Key) (Answer, error) {
	removal := Removal{Key: key}
	if err := c.checkRemovals([]Removal{removal}); err != nil {
		return Answer{}, err
	}
	return c.removes.call(ctx, removal)
}

// RemoveAll is Remove for many tasks, or for those that are still as they were seen: what is
// dead is dropped with State Dead, or with the Version that it had, and what was set anew
// meanwhile stays. A removal has had an effect where Answer.Was is Pending, Running or Dead and
// Answer.Version is zero.
func (c *Center) RemoveAll(ctx context.Context, removals []Removal) ([]Answer, error) {
	if err := c.checkRemovals(removals); err != nil {
		return nil, err
	}
	return c.engine.Remove(ctx, removals)
}

func (c *Center) checkRemovals(removals []Removal) error {
	if err := c.open(); err != nil {
		return err
	}
	for _, removal := range removals {
		if err := removal.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Replay has tasks that are dead run again, at once, with all attempts before them and a new
// version: it counts as a set, so callbacks have another idempotency key. Answer.Was is Dead
// where it did.
func (c *Center) Replay(ctx context.Context, keys []Key) ([]Answer, error) {
	if err := c.checkKeys(keys); err != nil {
		return nil, err
	}
	answers, err := c.engine.Replay(ctx, keys)
	if err == nil {
		c.wakeAll(len(answers), func(i int) (string, Answer) { return keys[i].Topic, answers[i] })
	}
	return answers, err
}

func (c *Center) checkKeys(keys []Key) error {
	if err := c.open(); err != nil {
		return err
	}
	for _, key := range keys {
		if err := key.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Get returns a task. It is ErrNotFound where there is none: it was never set, or has ended
// and is not kept.
func (c *Center) Get(ctx context.Context, key Key) (Task, error) {
	if err := c.checkKeys([]Key{key}); err != nil {
		return Task{}, err
	}
	tasks, err := c.engine.Get(ctx, []Key{key})
	if err != nil {
		return Task{}, err
	}
	if tasks[0].State == None {
		return Task{}, fmt.Errorf("%w: task %v", ErrNotFound, key)
	}
	return tasks[0], nil
}

// GetAll is Get for many tasks. Those that are not there have State None. All payloads are in
// the answer, so who has large ones asks for few keys at a time.
func (c *Center) GetAll(ctx context.Context, keys []Key) ([]Task, error) {
	if err := c.checkKeys(keys); err != nil {
		return nil, err
	}
	return c.engine.Get(ctx, keys)
}

// List returns a page of the tasks of a topic and a state, with payloads of at most
// MaxPageBytes: where Page.Next is not empty there are more, however many are on the page.
func (c *Center) List(ctx context.Context, query Query) (Page, error) {
	if err := c.open(); err != nil {
		return Page{}, err
	}
	if err := CheckTopic(query.Topic); err != nil {
		return Page{}, err
	}
	if query.State == None || query.State > Removed {
		return Page{}, fmt.Errorf("%w: state %v of a list, must be pending, running, done, dead or removed", ErrArgument, query.State)
	}
	if query.Limit < 0 || query.Limit > MaxPage {
		return Page{}, fmt.Errorf("%w: Limit %d of a list, must be 0 to %d", ErrArgument, query.Limit, MaxPage)
	}
	query.Limit = or(query.Limit, 100)
	return c.engine.List(ctx, query)
}

// Executions returns the attempts of a task that have ended, the latest first, at most limit
// and not more than MaxPage. It is ErrUnsupported where the engine is no Log.
func (c *Center) Executions(ctx context.Context, key Key, limit int) ([]Execution, error) {
	if err := c.checkKeys([]Key{key}); err != nil {
		return nil, err
	}
	log, ok := c.engine.(Log)
	if !ok {
		return nil, fmt.Errorf("%w: a log of executions", ErrUnsupported)
	}
	if limit < 1 || limit > MaxPage {
		return nil, fmt.Errorf("%w: limit %d of executions, must be 1 to %d", ErrArgument, limit, MaxPage)
	}
	return log.Executions(ctx, key, limit)
}

// Feedback tells the outcome of a task whose handler has returned ErrAccepted: failure is as
// a handler would return it, and nil is success. It reports false where the lease had ended
// before: the task runs again, has been set, removed or settled. Telling it twice does no
// harm.
func (c *Center) Feedback(ctx context.Context, token Token, failure error) (bool, error) {
	if err := c.open(); err != nil {
		return false, err
	}
	if err := token.Check(); err != nil {
		return false, err
	}
	topic, err := c.ensure(ctx, token.Topic)
	if err != nil {
		return false, err
	}
	tasks, err := c.engine.Get(ctx, []Key{token.Key})
	if err != nil {
		return false, err
	}
	outcome := conclude(topic, token, tasks[0].Attempts, failure)
	batch, err := c.engine.Expire(ctx, Ask{Topic: token.Topic, Node: c.cfg.Node, Settle: []Outcome{outcome}})
	if err != nil {
		return false, err
	}
	return batch.Settled[0], nil
}

// SetTopic makes or changes a topic, for all nodes; they know of it within a third of their
// TTL. It returns what is kept: a topic that is there is paused after it if it was before. See
// Engine.SetTopic for errors.
func (c *Center) SetTopic(ctx context.Context, topic Topic) (Topic, error) {
	if err := c.open(); err != nil {
		return Topic{}, err
	}
	if err := topic.Check(); err != nil {
		return Topic{}, err
	}
	if topic.Callback != nil {
		if err := c.checkCallback(*topic.Callback); err != nil {
			return Topic{}, err
		}
	}
	kept, err := c.engine.SetTopic(ctx, topic, false)
	if err == nil {
		c.learn(kept)
	}
	return kept, err
}

// Topics returns all topics, by name.
func (c *Center) Topics(ctx context.Context) ([]Topic, error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	return c.engine.Topics(ctx)
}

// Topic returns a topic, or ErrNotFound.
func (c *Center) Topic(ctx context.Context, name string) (Topic, error) {
	topics, err := c.Topics(ctx)
	if err != nil {
		return Topic{}, err
	}
	for _, topic := range topics {
		if topic.Name == name {
			return topic, nil
		}
	}
	return Topic{}, fmt.Errorf("%w: topic %q", ErrNotFound, name)
}

// Pause has a topic accept tasks and run none, on all nodes: no task is leased after it has
// returned, and those that run go on. Resume ends that.
func (c *Center) Pause(ctx context.Context, topic string) error { return c.pause(ctx, topic, true) }

// Resume is the other half of Pause.
func (c *Center) Resume(ctx context.Context, topic string) error { return c.pause(ctx, topic, false) }

func (c *Center) pause(ctx context.Context, name string, paused bool) error {
	if err := c.open(); err != nil {
		return err
	}
	if err := CheckTopic(name); err != nil {
		return err
	}
	kept, err := c.engine.Pause(ctx, name, paused)
	if err == nil {
		c.learn(kept)
	}
	return err
}

// DropTopic ends a topic and all that is in it.
func (c *Center) DropTopic(ctx context.Context, name string) error {
	if err := c.open(); err != nil {
		return err
	}
	err := c.engine.DropTopic(ctx, name)
	c.forget(name)
	return err
}

func (c *Center) forget(topic string) {
	c.mu.Lock()
	delete(c.topics, topic)
	c.mu.Unlock()
	c.look()
}

// Count counts the tasks of a topic. It is ErrNotFound where there is no such topic.
func (c *Center) Count(ctx context.Context, topic string) (Counts, error) {
	if err := c.open(); err != nil {
		return Counts{}, err
	}
	return c.engine.Count(ctx, topic)
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

// wake has the worker of a topic look where it would have slept for longer than until due.
func (c *Center) wake(topic string, due time.Time) {
	c.mu.Lock()
	w := c.workers[topic]
	c.mu.Unlock()
	if w != nil {
		w.expect(due)
	}
}

// wakeAll wakes each topic once, for its earliest task.
func (c *Center) wakeAll(n int, at func(int) (topic string, answer Answer)) {
	first := make(map[string]time.Time)
	for i := range n {
		topic, answer := at(i)
		if answer.Due.IsZero() {
			continue
		}
		if due, seen := first[topic]; !seen || answer.Due.Before(due) {
			first[topic] = answer.Due
		}
	}
	for topic, due := range first {
		c.wake(topic, due)
	}
}
