package engine

import (
	"context"
	"fmt"
	"time"
)

// Engine keeps tasks in memory, SQLite, PostgreSQL or Redis. Programs choose an engine and call a
// timeout.Center.
//
// Each method takes a batch of any length. It is atomic for each task, not for the batch. The
// answers are in the order of the arguments. After an error of the method, the outcome of the
// whole batch is unknown; repeating the call does no harm. The Err of an answer is about one
// task alone. If one part of an engine of several parts does not answer, only the tasks of that
// part get an error.
//
// All times are those of the engine's own clock, in milliseconds. If somebody sets that clock back, tasks
// wait for their action times by the clock, but leases and memberships end after their length, by the
// next Maintain at the latest. Several goroutines and processes may call all methods at the same time.
// The caller passes nothing to an engine that Check refuses. Package enginetest is the conformance
// suite.
//
// If ctx has ended before the call, the method changes nothing, and returns the error of ctx. Get,
// List, Move, Remove, Replay and Extend take a missing topic for one without tasks, and Lease returns
// ErrNotFound. After a call, the caller may change the bytes, maps and callbacks of arguments and
// answers: the engine has copies.
type Engine interface {
	// SetTopic makes a topic, or changes all settings of an existing one, with two exceptions.
	// Slots of zero leaves the number of slots as it is. Paused counts for a new topic only, so
	// changing another setting neither pauses nor resumes the topic. With onlyNew an existing
	// topic stays as it is. SetTopic returns the topic as it is kept now, with the defaults
	// filled in. Fewer slots than the topic has are ErrConflict, and more slots than
	// GlobalConcurrency are ErrArgument: see Topic.In.
	SetTopic(ctx context.Context, topic Topic, onlyNew bool) (Topic, error)

	// Pause pauses or resumes a topic and changes nothing else. It returns the topic as it is
	// kept now, or ErrNotFound if there is no such topic.
	Pause(ctx context.Context, topic string, paused bool) (Topic, error)

	// Topics returns all topics, by name.
	Topics(ctx context.Context) ([]Topic, error)

	// DropTopic ends a topic and everything in it. It returns ErrNotFound if there is no such
	// topic.
	DropTopic(ctx context.Context, name string) error

	// Count counts the tasks of a topic. It returns ErrNotFound if there is no such topic. If the
	// cost grows with the number of tasks, a count may serve later calls, too: for ten times as
	// long as it took, or for a second if that is longer.
	Count(ctx context.Context, topic string) (Counts, error)

	// Set makes each task wait for its action time, whatever its state was. The attempts start
	// anew, like Created and all counts, the log is empty, and the lease of a running task is void. With IfAbsent
	// it changes nothing if the task is Pending, Running or Dead. If a key occurs several times in tasks, the last one
	// stays. Set makes no topics: if a task's topic does not exist, its Err is ErrNotFound.
	Set(ctx context.Context, tasks []Task) ([]Answer, error)

	// Move changes the action time of pending tasks that match the move, before the first attempt or
	// before a retry. The version is new; attempts and error stay. Move does not change other tasks.
	Move(ctx context.Context, moves []Move) ([]Answer, error)

	// Remove ends pending, running and dead tasks that match the removal. The lease of a
	// running task is void. Other tasks stay as they are.
	Remove(ctx context.Context, removals []Removal) ([]Answer, error)

	// Replay makes dead tasks wait again: with the present as Due, all their attempts and a new
	// version. The error may stay until the next attempt. Replay does not change other tasks. The
	// version is new because the idempotency key is made of it. With the old key, a target that
	// remembers its answers would repeat the old one, and a queue that drops duplicates would drop
	// the task.
	Replay(ctx context.Context, keys []Key) ([]Answer, error)

	// Get returns the tasks. The State of a missing task is None. Get returns all tasks however
	// large, so a call for many keys may return as many times MaxPayload. An engine of several
	// parts can return tasks and also an error that wraps ErrPartial. Then the tasks with a
	// State are right, and nothing is known of the others.
	Get(ctx context.Context, keys []Key) ([]Task, error)

	// List returns a page of the tasks of one topic and state.
	List(ctx context.Context, query Query) (Page, error)

	// Lease settles earlier leases, then leases due tasks, the earliest first as far as the
	// engine can tell. A Running task whose lease has ended is due as well; if it has no
	// attempt left it becomes Dead. If only some of what was asked can be done, the error wraps
	// ErrPartial, and the batch is right as far as it goes: its tasks are leased, and each outcome
	// with true in Settled has had its effect. Nothing is known of the other outcomes: telling them
	// again does no harm.
	Lease(ctx context.Context, ask Ask) (Batch, error)

	// Extend makes leases end after the duration lease from now. It reports for each token
	// whether its lease was still the last one of the task. False means that the task was set,
	// removed, settled or leased again, so the handler's work is in vain. An engine of several
	// parts can also return an error that wraps ErrPartial. Then each true is right, and
	// nothing is known of the others.
	Extend(ctx context.Context, tokens []Token, lease time.Duration) ([]bool, error)

	// Maintain does a bounded part of the background work. It deletes tasks at the end of their
	// retention, and the oldest dead tasks beyond Topic.MaxDead. Until then all methods find them. Normally
	// one node at a time calls it; two calls at the same time do no harm.
	Maintain(ctx context.Context) (Purged, error)

	// Members keeps the list of nodes in the engine itself.
	Members

	// Ready returns nil if the engine can store tasks and return them: it has just answered,
	// and keeps its writes. The error wraps ErrFull if there is no room. Ready touches no more
	// than a row, so it can be called every second. For an engine of several parts, one working
	// part is enough.
	Ready(ctx context.Context) error

	// Now returns the engine's clock.
	Now(ctx context.Context) (time.Time, error)

	// Close releases the resources of the engine. It is idempotent. After it, other methods
	// return ErrClosed.
	Close() error
}

// Purged is the result of a call of Maintain.
type Purged struct {
	// More says that there is more to do.
	More bool

	// Dead counts the dead tasks that Maintain deleted, by topic: those older than
	// Topic.RetainDead, and those beyond Topic.MaxDead. It is nil if there were none.
	Dead map[string]int
}

// Add adds the result of another call.
func (s *Purged) Add(other Purged) {
	s.More = s.More || other.More
	for topic, n := range other.Dead {
		s.AddDead(topic, n)
	}
}

// AddDead counts n deleted dead tasks of a topic.
func (s *Purged) AddDead(topic string, n int) {
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

	// Version is the required version of the task. Zero means any. Another one needs a Due, by which
	// the answer tells whether the task has moved.
	Version int64
}

// Check returns an error wrapping ErrArgument if no engine could make the move.
func (m Move) Check() error {
	if m.Version < 0 || m.Version > 0 && m.Due.IsZero() {
		return fmt.Errorf("%w: version %d of a move of %v to %v, must not be negative, and be with a Due", ErrArgument, m.Version, m.Key, m.Due)
	}
	return Task{Topic: m.Topic, ID: m.ID, Due: m.Due, After: m.After}.Check()
}

// Moves reports whether the move applies to a task of that state and version. It is for engines.
func (m Move) Moves(state State, version int64) bool {
	return state == Pending && (m.Version == 0 || m.Version == version)
}

// DueAt is Task.DueAt.
func (m Move) DueAt(now int64) int64 { return Task{Due: m.Due, After: m.After}.DueAt(now) }

// Removal names a task to remove, perhaps only if it is still in a certain state and version.
// So dropping a dead task does not remove a task set anew meanwhile.
type Removal struct {
	Key

	// State is the required state of the task: Pending, Running or Dead. None means any of
	// them.
	State State `json:"state,omitzero"`

	// Version is the required version of the task. Zero means any.
	Version int64 `json:"version,omitempty"`
}

// Check returns an error wrapping ErrArgument if the removal is invalid.
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

// Removes reports whether the removal applies to a task of that state and version. It is for
// engines.
func (r Removal) Removes(state State, version int64) bool {
	live := state == Pending || state == Running || state == Dead
	return live && (r.State == None || r.State == state) && (r.Version == 0 || r.Version == version)
}

// Answer is the result of a call for one task.
type Answer struct {
	// Was is the state of the task before the call. A set replaces a task in any state. A move
	// has had an effect if Was is Pending. With a Move.Version it has had one if Due is that of the
	// move, too. A replay has had an effect if Was is Dead. A removal has had one if Was is
	// Pending, Running or Dead and Version is zero.
	Was State `json:"was"`

	// Version and Due are those of the task after the call, and zero if there is none or if this
	// call has removed it.
	Version int64     `json:"version,omitempty"`
	Due     time.Time `json:"due,omitzero"`

	// Err is the reason why nothing was done.
	Err error `json:"-"`
}

// Token proves a lease. Its text form can be given to others: see timeout.Center.Feedback.
type Token struct {
	Key
	Lease int64  // number of the lease, never used again for a task of that key
	Part  string // place of the task, for the engine

	// Begun is when timeout.Center.Pull leased the task, in milliseconds by the engine's clock.
	// Zero means another lease. Engines leave it zero.
	Begun int64

	// Proof is a center's signature, for use outside of the center: see timeout.Config.FeedbackKeys.
	// Engines leave it empty.
	Proof string
}

// Leased is a task that is Running now, with the token of its lease.
type Leased struct {
	Task
	Token Token

	// Again says that the lease before this one ended unsettled: its worker died or hung.
	Again bool
}

// Lasting takes out leases of one call of Lease that are void because they ended meanwhile, and the call leased their
// tasks again. A task set anew between two steps of the call has run, as far as its setter knows: it keeps both leases.
// Lasting is for engines.
func Lasting(leased []Leased) []Leased {
	last := make(map[string]*Leased, len(leased)) // of each task, in the order of leasing
	for i := range leased {
		last[leased[i].ID] = &leased[i]
	}
	if len(last) == len(leased) {
		return leased
	}
	lasting := make([]Leased, 0, len(leased))
	for i := range leased {
		one := &leased[i]
		if l := last[one.ID]; l == one || l.Version != one.Version {
			lasting = append(lasting, *one)
		}
	}
	return lasting
}

// Ask is the argument of Lease.
type Ask struct {
	Topic string
	Node  string // the asking node

	// Settle are the outcomes of earlier leases, of this topic.
	Settle []Outcome

	// Max is the greatest number of tasks to lease. Zero means none, and no task becomes Dead.
	Max int

	// Lease is the length of the new leases.
	Lease time.Duration

	// Slots are the slots to lease from. Nil means all. Slots that do not exist are ignored:
	// the node may not know yet how many there are. If the first thousands of due tasks are all in
	// other slots, an engine may lease these. So it may if a topic has more slots than it was made with.
	Slots []int

	// Part is the part of a Parted engine to lease from. Zero means all of them, one after the other or together.
	// Outcomes go to their own parts anyway.
	Part int

	// OverdueBy limits Lease to tasks that have been due for at least that long. Zero means no
	// delay. A node uses it for the slots of other nodes, in case an owner sends its heartbeats but
	// hangs.
	OverdueBy time.Duration
}

// Outcome settles a lease.
type Outcome struct {
	Token Token

	// As is Done, Dead, or Pending for another attempt: at Due by the engine's clock, or After
	// from now if Due is zero.
	As    State
	Due   time.Time
	After time.Duration

	// Release, with Pending, does not count the attempt: the task was not begun. The task keeps the
	// error of the attempt before, and Node.
	Release bool

	// NewRun, with Pending, ends one run of the task and begins the next: no attempts, no node, and
	// a new action time. Calls, Failures and all else stay. Without an Error the run has ended
	// well: the task has no error any more, and the log has the attempt as Done, under the same
	// condition as that of a Done task. With an Error the run has failed: the task keeps the
	// Error, and the log has the attempt as Dead. NewRun goes before Release.
	NewRun bool

	// Error is the failure as text, of at most MaxError bytes of UTF-8. For Done the error of an
	// earlier attempt stays.
	Error string

	// Started and Took are for the log of executions.
	Started time.Time
	Took    time.Duration
}

// DueAt returns the time of another attempt if the lease is settled at now, both in
// milliseconds since the epoch. It is for engines.
func (o Outcome) DueAt(now int64) int64 { return Task{Due: o.Due, After: o.After}.DueAt(now) }

// Batch is the answer of Lease.
type Batch struct {
	// Now is the engine's clock.
	Now time.Time

	// Settled reports for each of Ask.Settle whether its lease was the last one of the task. If
	// not, the outcome had no effect.
	Settled []bool

	// Leased are the new leases, at most Ask.Max, and one of each version of a task.
	Leased []Leased

	// Died are the tasks that this call made Dead because the lease of their last attempt
	// ended. Ask.Max does not count them.
	Died []Key

	// Next is when a task is next due in these slots, as far as this call has seen. It is not
	// after Now if more tasks are due at once, and zero if none waits. A Waker may leave out
	// tasks that it will wake for. Next means nothing if Ask.OverdueBy was not zero or Ask.Max was zero. It
	// is zero if the topic is paused.
	Next time.Time
}

// Log is the interface of engines with a log of executions.
type Log interface {
	// Executions returns the ended attempts of a task since its set, the latest first, at most limit. They stay
	// through moves, replays and new runs, for as long as Topic.RetainLog says. Like Task.Calls the log leaves out
	// those handed back, and without Topic.Retain the successful ones.
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

// Waker is the interface of engines that hear of what others do to tasks.
type Waker interface {
	// Wake calls wake with a topic when anybody, perhaps another process, sets or moves a task
	// to a time before all others of its slot. Some calls may be needless and some may be
	// missing: they only save time. Wake returns when ctx ends.
	//
	// An empty topic says that wake and ended are called from now on for all topics and all setters.
	// Wake says so when it begins to listen, and again after each gap. From then until Wake returns,
	// a center asks only every few seconds instead of every timeout.Config.Poll.
	//
	// Wake calls ended with the key of a task when a set or a removal has ended the lease of that running
	// task. A key without an ID says so of some tasks of the topic, or that the topic was dropped. As with
	// wake, some calls may be needless and some missing. A call that ends no lease should cost nothing more.
	// Neither function calls the engine or waits for one that does.
	Wake(ctx context.Context, wake func(topic string), ended func(key Key)) error
}

// Peeker is the interface of engines that can look at many topics in one call. A center without
// anything to do looks so, instead of a Lease of each topic.
type Peeker interface {
	// Peek returns for each element of peeks how long it is until Lease may find a due task. At most
	// zero means now. It is also the answer if the engine can't tell: the topic is missing or being
	// changed, or a part of the engine is away. NothingDue means that no task waits.
	// The time may be too short, since an engine may look at more slots. Peek changes nothing. After an
	// error nothing is known; ErrUnsupported means that a part of the engine can't peek.
	Peek(ctx context.Context, peeks []Peek) ([]time.Duration, error)
}

// Peek asks for a part of a topic.
type Peek struct {
	Topic string
	Slots []int // as in Ask
	Part  int   // as in Ask
}

// NothingDue is the answer to a Peek if no task waits.
const NothingDue time.Duration = 1<<63 - 1

// Wait returns the answer to a Peek for a task due in ms milliseconds. It is for engines.
func Wait(ms int64) time.Duration {
	return time.Duration(min(ms, NothingDue.Milliseconds()-1)) * time.Millisecond
}

// Parted is the interface of engines of several parts if each part can fail or hang alone, such as the servers of a
// Redis Cluster, or shards. A center asks each part by itself, and makes its single calls for one part together. So no
// part holds up the others. Neither method calls a server, and the answers may change. A wrong one only makes some
// calls wait for others.
type Parted interface {
	// Parts returns the numbers of the parts that may have tasks of some slots of a topic, each once. Nil slots means
	// all. The numbers are positive. If the engine does not know the parts yet, it returns zero, which means all: see
	// Ask.Part.
	Parts(topic string, slots []int) []int

	// Part returns the number of the part that keeps a key. Zero means that the engine does not know yet.
	Part(key Key) int
}

// PartOf returns the number of the part of an engine that keeps a key: zero, unless the engine is Parted.
func PartOf(e Engine, key Key) int {
	if parted, ok := e.(Parted); ok {
		return parted.Part(key)
	}
	return 0
}

// Primary is the interface of engines that allow an index in front: package index finds the due
// tasks with a wheel or Redis.
type Primary interface {
	Engine

	// ScanBefore returns the Pending and Running tasks of some slots, or of all if slots is nil,
	// with a time before until. It returns pages of at most limit, by cursor.
	ScanBefore(ctx context.Context, topic string, slots []int, until time.Time, cursor string, limit int) (ScanPage, error)

	// Claim leases tasks by their keys if they are due, or tells why not.
	Claim(ctx context.Context, topic, node string, wanted []Wanted, lease time.Duration) ([]Claimed, error)
}

// ScanPage is a page of ScanBefore.
type ScanPage struct {
	Wanted []Wanted
	Next   string // the cursor of the next page, empty on the last

	// Until says how far the pages have come: no task on a later page is due before. A task moved to a
	// later time can be on an earlier page, so the times of Wanted don't tell.
	Until time.Time
}

// Wanted is a version of a task, and when it is due.
type Wanted struct {
	ID      string
	Version int64
	At      time.Time // action time, or end of the lease
}

// Claimed is the result for a Wanted.
type Claimed struct {
	// OK says that the claim has leased the task, as Leased.
	OK     bool
	Leased Leased

	// At is when the task is due, if that version exists but is not due yet or is leased. Zero
	// means that this version is gone.
	At time.Time

	// Died says that this claim has made the task Dead: the lease of its last attempt had
	// ended.
	Died bool
}
