package timeout

import (
	"context"
	"fmt"
	"time"
)

// Engine keeps tasks: in memory, in SQLite, PostgreSQL or Redis. A Center is what programs
// use; an engine is what they choose.
//
// Each method takes a batch of any length and does it atomically task by task, not as a
// whole: the answers are in the order of what was asked for. An error of the method says
// that nothing is known about the whole batch; asking again does no harm. The Err of an
// answer is about that one: of an engine of several parts, one that does not answer is an
// error of its own tasks and of no others.
//
// All times that matter are those of the engine's own clock, in milliseconds. All methods
// may be called by several goroutines and processes at the same time. What Check would
// refuse is not passed to an engine. The conformance suite is package enginetest.
type Engine interface {
	// SetTopic makes a topic, or changes the one of that name to what is given, all fields
	// of it; but a Slots of zero leaves that number as it is, and Paused is for one that is
	// made: who changes another setting neither pauses a topic nor resumes it. It returns what
	// is kept then, with the defaults filled in. A number of slots that is less than what is
	// there is ErrConflict. With onlyNew a topic that is there stays as it is, and is returned.
	SetTopic(ctx context.Context, topic Topic, onlyNew bool) (Topic, error)

	// Pause has a topic be paused, or not, and leaves all else of it as it is. It returns what
	// is kept then. It is ErrNotFound where there is none.
	Pause(ctx context.Context, topic string, paused bool) (Topic, error)

	// Topics returns all topics, by name.
	Topics(ctx context.Context) ([]Topic, error)

	// DropTopic ends a topic and all that is in it. It is ErrNotFound where there is none.
	DropTopic(ctx context.Context, name string) error

	// Count counts the tasks of a topic. It is ErrNotFound where there is none. It may take
	// as long as there are slots, and not as long as there are tasks.
	Count(ctx context.Context, topic string) (Counts, error)

	// Set has each task wait for its action time, whatever it was before: the attempts start
	// anew, the lease of one that runs is void. With IfAbsent it changes nothing where the
	// task is Pending, Running or Dead. The same key may be there several times: the last
	// one stays. The topics must be there: Err is ErrNotFound where one is not.
	Set(ctx context.Context, tasks []Task) ([]Answer, error)

	// Move changes the action time of those that are pending, be it for the first time or
	// for a retry, and nothing of the others.
	Move(ctx context.Context, moves []Move) ([]Answer, error)

	// Remove ends the tasks that are pending, running or dead, where they are as the removal
	// says. The lease of one that runs is void. Others stay as they are.
	Remove(ctx context.Context, removals []Removal) ([]Answer, error)

	// Replay has tasks that are dead wait again, due at once, with all attempts before them
	// and a new version; nothing is changed of the others. Who replays a task wants it done
	// once more: with the version, and so the idempotency key, of before, a target that
	// remembers its answers would give the old one, and a queue that drops duplicates would
	// drop it.
	Replay(ctx context.Context, keys []Key) ([]Answer, error)

	// Get returns the tasks, with State None for those that are not there. It returns all of
	// them, however large: who asks for many keys may get as many times MaxPayload. An engine
	// of several parts can answer with an error that wraps ErrPartial besides: what has a State
	// is so then, and nothing is known of the others.
	Get(ctx context.Context, keys []Key) ([]Task, error)

	// List returns a page of the tasks of one topic and state.
	List(ctx context.Context, query Query) (Page, error)

	// Expire is the other half: it settles what was leased before, then leases what is due,
	// the earliest first as far as the engine can tell. What is Running and has outlived its
	// lease is due as well; where it has no attempt left it becomes Dead. Of an engine of several
	// parts some may not answer: then what the others have leased is returned without an error,
	// and what those can't be told counts as settled, and is told with a later call.
	Expire(ctx context.Context, ask Ask) (Batch, error)

	// Extend has leases end lease from now. It reports for each whether that lease was
	// still the last one of its task: false means that the task was set, removed, settled
	// or leased by somebody else, so the handler's work is in vain. An engine of several parts
	// can answer with an error that wraps ErrPartial besides: what is true is so then, and
	// nothing is known of the others.
	Extend(ctx context.Context, tokens []Token, lease time.Duration) ([]bool, error)

	// Upkeep does a bounded part of the work that nobody waits for: it deletes what was
	// kept for its time, and what is dead beyond Topic.MaxDead, the oldest first, and moves
	// what is left in the slots of before a topic grew. It is called by one node at a time,
	// more or less: two at the same time do no harm.
	Upkeep(ctx context.Context, term int64) (Swept, error)

	// Members keeps the list of nodes in the engine itself.
	Members

	// Now returns the engine's clock.
	Now(ctx context.Context) (time.Time, error)

	// Close ends what the engine has opened. It is idempotent. Other methods return
	// ErrClosed then.
	Close() error
}

// Swept is what a call of Upkeep has done.
type Swept struct {
	// More says that there is more to do.
	More bool

	// Dead counts the dead tasks that were deleted, by topic: those that were kept for
	// Topic.RetainDead, and those that were too many. It is nil where there were none.
	Dead map[string]int
}

// Add adds what another call has done.
func (s *Swept) Add(other Swept) {
	s.More = s.More || other.More
	for topic, n := range other.Dead {
		s.AddDead(topic, n)
	}
}

// AddDead counts dead tasks of a topic that were deleted.
func (s *Swept) AddDead(topic string, n int) {
	if n == 0 {
		return
	}
	if s.Dead == nil {
		s.Dead = make(map[string]int)
	}
	s.Dead[topic] += n
}

// Move is a new action time for a task.
type Move struct {
	Key
	Due   time.Time     // as in Task
	After time.Duration // as in Task
}

// DueAt is Task.DueAt.
func (m Move) DueAt(now int64) int64 { return Task{Due: m.Due, After: m.After}.DueAt(now) }

// Removal is a task to be removed, perhaps only where it is still what somebody has seen: so
// who drops what is dead does not remove what was set anew meanwhile.
type Removal struct {
	Key

	// State is the one that the task must be in: Pending, Running or Dead. None means any of
	// them.
	State State `json:"state,omitzero"`

	// Version is the one that the task must have. Zero means any.
	Version int64 `json:"version,omitempty"`
}

// Check returns an error, which wraps ErrArgument, where nothing can be removed like that.
func (r Removal) Check() error {
	if err := r.Key.Check(); err != nil {
		return err
	}
	switch r.State {
	case None, Pending, Running, Dead:
	default:
		return fmt.Errorf("%w: state %v of a removal of %v, must be none, pending, running or dead", ErrArgument, r.State, r.Key)
	}
	if r.Version < 0 {
		return fmt.Errorf("%w: version %d of a removal of %v, must not be negative", ErrArgument, r.Version, r.Key)
	}
	return nil
}

// Removes reports whether a task of that state and version is removed. It is for engines.
func (r Removal) Removes(state State, version int64) bool {
	live := state == Pending || state == Running || state == Dead
	return live && (r.State == None || r.State == state) && (r.Version == 0 || r.Version == version)
}

// Answer is what a call has found, and made, of one task.
type Answer struct {
	// Was is the state in which the task was. A set replaces whatever was there; a move has
	// had an effect where it is Pending, a replay where it is Dead, a removal where it is
	// one of those or Running, and Version is zero.
	Was State `json:"was"`

	// Version and Due are those that the task has now, and zero where there is none. A
	// removed task has none.
	Version int64     `json:"version,omitempty"`
	Due     time.Time `json:"due,omitzero"`

	// Err is why nothing was done.
	Err error `json:"-"`
}

// Query asks for tasks.
type Query struct {
	Topic string
	State State // one of Pending, Running, Done, Dead and Removed

	// Limit is how many tasks a page has at most. Zero means 100, and more than MaxPage is an
	// error.
	Limit int

	// Cursor is the Next of the page before, or empty for the first one.
	Cursor string
}

const (
	// MaxPage is how many tasks a page can have.
	MaxPage = 1000

	// MaxPageBytes is how many bytes of payloads a page can have: of large ones, fewer tasks
	// than Limit are on it.
	MaxPageBytes = 4 << 20
)

// Page is a part of a list, in the order of Task.Until within each slot. What is there
// throughout is on exactly one page, whatever happens meanwhile to the others. A page with a
// Next can have fewer tasks than were asked for, or none.
type Page struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty"` // empty on the last page
}

// Token proves a lease. Its text form can be given to others: see Center.Feedback.
type Token struct {
	Key
	Lease int64  // the lease's number: no other lease of a task of that key ever gets the same
	Part  string // for the engine: where the task is
}

// Leased is a task that is Running now, for whoever has the token.
type Leased struct {
	Task
	Token Token

	// Again says that the lease before this one was outlived: its worker died, or hung.
	Again bool
}

// Ask says what Expire shall settle and lease.
type Ask struct {
	Topic string
	Node  string // who asks

	// Settle are the outcomes of earlier leases, of this topic.
	Settle []Outcome

	// Max is how many tasks are leased at most. Zero means none.
	Max int

	// Lease is how long they are.
	Lease time.Duration

	// Slots are those to lease from. Nil means all. Those that there are not are ignored: who
	// asks may not know yet how many there are.
	Slots []int

	// Term is the View's in which the slots belonged to the node. Where somebody has asked
	// for one of them with a higher term, and within the last FenceFor, nothing is leased
	// and the error is ErrFenced; what was to be settled is settled even then, since a
	// token proves more. Zero means that it is not looked at.
	Term int64

	// Late leaves alone what has been due for less than that. Zero means nothing. With it a
	// node takes what the node does not that the slots belong to: it hangs, and shows itself.
	Late time.Duration
}

// FenceFor is how long a slot is kept from nodes with an older view.
const FenceFor = 30 * time.Second

// Outcome settles a lease.
type Outcome struct {
	Token Token

	// As is Done, Dead, or Pending for another attempt: at Due by the engine's clock, or After from
	// now if Due is zero.
	As    State
	Due   time.Time
	After time.Duration

	// Refund gives the attempt back, with Pending: the task was not begun.
	Refund bool

	// Error is the failure as text; for Done it is kept from an earlier attempt.
	Error string

	// Started and Took are for the log of executions.
	Started time.Time
	Took    time.Duration
}

// DueAt returns the time of another attempt of a lease that is settled at now, both in milliseconds
// since the epoch. It is for engines.
func (o Outcome) DueAt(now int64) int64 { return Task{Due: o.Due, After: o.After}.DueAt(now) }

// Batch is what Expire answers.
type Batch struct {
	// Now is the engine's clock.
	Now time.Time

	// Settled reports for each of Ask.Settle whether its lease was the last one. Otherwise
	// it had no effect.
	Settled []bool

	// Leased are the tasks, at most Ask.Max.
	Leased []Leased

	// Died are those that became Dead since they outlived their last attempt.
	Died []Key

	// Next is when there is something due again in these slots, as far as this call has
	// seen: not after Now where there is more at once, and zero where nothing waits. An
	// engine that is a Waker may leave out what it will wake for. It says nothing where
	// Ask.Late was not zero.
	Next time.Time
}

// Log is what engines with a log of executions have besides.
type Log interface {
	// Executions returns the attempts of a task that have ended, the latest first, at most
	// limit.
	Executions(ctx context.Context, key Key, limit int) ([]Execution, error)
}

// Execution is an attempt that has ended.
type Execution struct {
	Version int64         `json:"version"`
	Attempt int           `json:"attempt"`
	Node    string        `json:"node"`
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`
	As      State         `json:"as"`
	Error   string        `json:"error,omitempty"`
}

// Waker is what engines have besides that hear of tasks which others set.
type Waker interface {
	// Wake calls wake with a topic when somebody, perhaps in another process, has set or
	// moved a task to a time earlier than all others of its slot. It may be called for
	// nothing, and now and then not called: it only saves time. Wake returns when ctx ends.
	//
	// An empty topic says: from now on wake is called for all topics and all setters. Wake says
	// so when it begins to listen, and again after each gap. Until Wake returns, a centre then asks
	// every few seconds only, in place of every Config.Poll.
	Wake(ctx context.Context, wake func(topic string)) error
}

// Laned is what engines of several parts have besides, each of which can fail or hang alone.
type Laned interface {
	// Lane returns the number of the part that a key is in: single calls for one part don't
	// wait for those of another. It is asked before each of them, so it may change, and it asks
	// nobody. A wrong answer does no harm but to the time that others take.
	Lane(key Key) int
}

// Truth is what an engine has besides whose tasks can be found by another one: package index
// puts a wheel or Redis in front of it.
type Truth interface {
	Engine

	// Upcoming returns the tasks of some slots, or of all if nil, that are Pending or
	// Running and whose time is before until, as pages of at most limit, by cursor.
	Upcoming(ctx context.Context, topic string, slots []int, until time.Time, cursor string, limit int) (UpcomingPage, error)

	// Claim leases tasks by their keys, where they are due, or tells why not.
	Claim(ctx context.Context, topic, node string, wanted []Wanted, lease time.Duration) ([]Claimed, error)
}

// UpcomingPage is a part of what is due soon.
type UpcomingPage struct {
	Wanted []Wanted
	Next   string // the cursor of the next page, empty on the last
}

// Wanted is a version of a task, and when it is due.
type Wanted struct {
	ID      string
	Version int64
	At      time.Time // its action time, or the end of its lease
}

// Claimed is what became of a Wanted.
type Claimed struct {
	// OK says that Leased is leased.
	OK     bool
	Leased Leased

	// At is when the task is due, where it is there with that version and is not due yet,
	// or belongs to somebody. Zero means that this version is not there any more.
	At time.Time

	// Died says that this claim has found that the task has outlived its last attempt, and
	// has made it Dead.
	Died bool
}
