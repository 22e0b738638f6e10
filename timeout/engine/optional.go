package engine

import (
	"context"
	"time"
)

// Log is the interface of engines with a log of executions.
type Log interface {
	// Executions returns the ended attempts of a task since its set, the latest first, at most limit. They stay
	// through moves, replays and new runs, for as long as Topic.RetainLog says. Like Task.Calls the log leaves out
	// those handed back, and without Topic.Retain the successful ones. An engine may keep only the last ones.
	Executions(ctx context.Context, key Key, limit int) ([]Execution, error)
}

// Logs reports whether an engine keeps a log of executions. An engine.Log that may be told to keep none has a method Logs that
// says so.
func Logs(e Engine) bool {
	if log, ok := e.(interface{ Logs() bool }); ok {
		return log.Logs()
	}
	_, ok := e.(Log)
	return ok
}

// Execution is an ended attempt.
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
}
