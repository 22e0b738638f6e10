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
	// Slots of zero leaves the number of slots as it is. The pause counts for a new topic only, so
	// changing another setting neither pauses nor resumes the topic. With onlyNew an existing
	// topic stays as it is. SetTopic returns the topic as it is kept now, with the defaults
	// filled in. Fewer slots than the topic has are ErrConflict, and more slots than
	// GlobalConcurrency are ErrArgument: see Topic.In.
	//
	// With was, which is one topic at most, SetTopic changes a topic only if it still is as was, as a call has returned
	// it, and otherwise returns ErrChanged. Nobody changes it in between. So the pause counts, too. A zero was means that
	// there must be no such topic.
	SetTopic(ctx context.Context, topic Topic, onlyNew bool, was ...Topic) (Topic, error)

	// Pause pauses a topic until a time, or with a zero one until somebody resumes it. Without paused it resumes the
	// topic. It changes nothing else. It returns the topic as it is kept now, or ErrNotFound if there is no such topic.
	// A pause until a time before the present has ended.
	Pause(ctx context.Context, topic string, paused bool, until time.Time) (Topic, error)

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
	// it changes nothing if the task is Pending, Running or Dead. With KeepDue a Pending task keeps its Due and Until, and
	// a Running one its Due. If a key occurs several times in tasks, the last one stays. Set makes
	// no topics: if a task's topic does not exist, its Err is ErrNotFound.
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
	// engine can tell. A Running task whose lease has ended is due as well, however many attempts it
	// has had: the caller settles what it gives up. If only some of what was asked can be done, the error wraps
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

	// Max is the greatest number of tasks to lease. Zero means none.
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

	// Release, with Pending or Dead, does not count the attempt: the task was not begun. The log does not
	// have it. With Pending, unless a NewRun begins, the task keeps the error of the attempt before, and Node.
	Release bool

	// NewRun, with Pending, ends one run of the task and begins the next: no attempts, no node, and
	// a new action time. Calls, Failures and all else stay. Without an Error the run has ended
	// well: the task has no error any more, and the log has the attempt as Done, under the same
	// condition as that of a Done task. With an Error the run has failed: the task keeps the
	// Error, and the log has the attempt as Dead.
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

	// Next is when a task is next due in these slots, as far as this call has seen. It is not
	// after Now if more tasks are due at once, and zero if none waits. A Waker may leave out
	// tasks that it will wake for. Next means nothing if Ask.OverdueBy was not zero or Ask.Max was zero. If the
	// topic is paused, it is Topic.PausedUntil.
	Next time.Time
}
