package fleet

import (
	"context"
	"time"
)

// store keeps sessions: Redis, and in tests a model of it. Answers are in the order of the
// questions. After an error, any part of the call may have been done. All methods may be called
// by several goroutines at the same time.
type store interface {
	// register makes sessions this node's.
	register(ctx context.Context, asks []registration) ([]registered, error)

	// extend gives leases their length anew.
	extend(ctx context.Context, claims []claim) ([]verdict, error)

	// unregister ends sessions, for the reason 'c' or 'k', see reasonOf. If resume is more than zero,
	// it detaches them.
	unregister(ctx context.Context, claims []claim, reason byte, resume time.Duration) ([]verdict, error)

	// unregisterLost is unregister for sessions lost by the server. Each has its token in before.
	unregisterLost(ctx context.Context, lost []registration, reason byte, resume time.Duration) ([]verdict, error)

	// sweep first settles the outcomes of earlier ends. Then it looks for leases that are over,
	// ends up to about limit sessions, and returns as many ends to tell. A limit of zero is a
	// mere look. It tells the slots: a node looks, and nothing is out of order. With settleOnly
	// there is not even a look. If the answer of a call was lost, the next call takes the same
	// ends again. Only one goroutine may call sweep at a time.
	sweep(ctx context.Context, limit int, outcomes []told) (swept, error)

	// confirm repeats the number of slots, in case the server has lost it. If the server has
	// another number, the error wraps ErrArgument.
	confirm(ctx context.Context) error

	// slots returns the number of slots: sessions in different slots are independent.
	slots() int

	// beat extends the node's own lease in each slot, and returns the slots' terms for the
	// node. A term is 0 if the slot did not answer, or nodes have no leases. If a slot did not
	// know the node, or has taken it for dead, it returns a new term: the node must then look
	// at its sessions there.
	beat(ctx context.Context) (terms []int64, err error)

	// goodbye removes the node's lease. Remaining sessions end with their own leases.
	goodbye(ctx context.Context) error

	get(ctx context.Context, ids []string) ([]found, error)
	kick(ctx context.Context, id string) (bool, error)
	count(ctx context.Context) (sessions, ended int64, err error)

	// nodes returns how many nodes have a lease of their own.
	nodes(ctx context.Context) (int, error)

	// listen calls hear with the news for this node, until ctx ends.
	listen(ctx context.Context, hear func(news)) error
	close() error
}

// settleOnly is a limit, see store.
const settleOnly = -1

// registration asks for a session. before, if set, is an earlier token of this node: the
// session is registered only if nobody has registered it since.
type registration struct {
	id     string
	meta   string
	before *token
}

type registered struct {
	kind  byte
	token token
	prev  value         // unless kind is kindNew
	whose record        // if kind is kindMoved or kindResumed
	term  int64         // the slot's term for the node, see beat
	known uint32        // the node's number of the term, see place
	sent  time.Duration // when the node asked, by its own clock
}

const (
	kindNew     = 'n'
	kindMoved   = 'm' // it had an owner
	kindResumed = 'r' // it was detached
	kindEnded   = 'e' // it had ended; the end was not told and will not be
	kindRefused = 's' // not registered: somebody has it since

	kindElsewhere = 'l' // not asked: the session belongs to the other lane
)

type claim struct {
	id    string
	token token
}

// verdict says whether a claim is good, or why not.
type verdict byte

const (
	held       verdict = 'h'
	superseded verdict = 's' // somebody has it since
	kicked     verdict = 'k'
	ended      verdict = 'x' // its end was told, or will be
	unknown    verdict = 'u' // the server has lost it
)

// told is the outcome of telling an end: settled, or to be told again after a while.
type told struct {
	event event
	done  bool
	after time.Duration
}

type swept struct {
	events  []event
	held    map[string]int // slots held back by this call, by cause
	due     int            // ended leases in the held slots
	silence time.Duration  // longest time of holding a slot back
	more    bool           // some sessions of dead nodes were not looked at yet
	beat    time.Duration  // shortest interval of the slots, or 0: a longer pause of all nodes is a gap
	open    []told         // outcomes perhaps not settled
}

type found struct {
	now    int64
	there  bool
	value  value
	record record // empty if the session has ended
	until  int64
}

// news is a message to a node: a session was registered by somebody else, or kicked. newsAgain
// comes when the node hears again after a gap, and may have missed messages.
type news struct {
	kind verdict // superseded, kicked or newsAgain
	claim
}

const newsAgain verdict = 'a'
