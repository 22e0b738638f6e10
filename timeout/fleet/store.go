package fleet

import (
	"context"
	"time"
)

// store keeps sessions: Redis, and in tests a model of it. Answers are in the order of the
// questions; an error leaves it open what was done. All methods may be called by several
// goroutines at the same time.
type store interface {
	// register makes sessions this node's.
	register(ctx context.Context, asks []registration) ([]registered, error)

	// extend gives leases their length anew.
	extend(ctx context.Context, claims []claim) ([]verdict, error)

	// unregister ends sessions, or detaches them where resume is more than zero.
	unregister(ctx context.Context, claims []claim, resume time.Duration) ([]verdict, error)

	// sweep settles what was told; then it looks at what leases are over, ends up to about limit
	// sessions, and returns as many ends to tell. A limit of zero is a look: it says that somebody
	// looks, and that nothing is out of order. With settleOnly there is not even that. What a call has
	// taken whose answer was lost, the next one takes again. It is for one goroutine at a time.
	sweep(ctx context.Context, limit int, outcomes []told) (swept, error)

	// confirm says how many slots there are, where the server has lost that. It returns an error that
	// wraps ErrArgument where there are others.
	confirm(ctx context.Context) error

	// slots is how many parts sessions are kept in, each for itself.
	slots() int

	// beat extends the node's own lease in each slot, and returns the terms under which these know
	// it: 0 where there is no answer, or nodes have no leases. A slot that did not know the node, or has
	// taken it for dead, says a new term, and what it has of the node's sessions is to be looked at.
	beat(ctx context.Context) (terms []int64, err error)

	// goodbye ends the node's lease. What it has left of sessions ends with theirs.
	goodbye(ctx context.Context) error

	get(ctx context.Context, ids []string) ([]found, error)
	kick(ctx context.Context, id string) (bool, error)
	count(ctx context.Context) (sessions, ended int64, err error)

	// listen calls hear with what is told to this node, until ctx ends.
	listen(ctx context.Context, hear func(news)) error
	close() error
}

// settleOnly is a limit, see store.
const settleOnly = -1

// registration asks for a session. before is a token that this node has had, where the session
// shall be registered only if nobody has it since.
type registration struct {
	id     string
	meta   string
	before *token
}

type registered struct {
	kind  byte
	token token
	prev  value         // where kind is not kindNew
	whose record        // where kind is kindMoved or kindResumed
	term  int64         // under which the slot knows the node, see beat
	known uint32        // which that is to the node, see place
	sent  time.Duration // when the node asked, by its own clock
}

const (
	kindNew     = 'n'
	kindMoved   = 'm' // it was somebody's
	kindResumed = 'r' // it was detached
	kindEnded   = 'e' // it had ended, which was not told and will not be
	kindRefused = 's' // somebody has it since: it was not registered

	kindElsewhere = 'l' // the node has not asked: it is for its other lane
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

// told is what came of telling an end: it is settled, or to be told again after a while.
type told struct {
	event event
	done  bool
	after time.Duration
}

type swept struct {
	events  []event
	held    map[string]int // how many slots were held back by this call, by why
	due     int            // leases that are over in those
	silence time.Duration  // for how long they are held back, at most
	more    bool           // there are sessions of dead nodes that were not looked at yet
	open    []told         // outcomes of which it is not known that they were settled
}

type found struct {
	now    int64
	there  bool
	value  value
	record record // not of one that has ended
	until  int64
}

// news is what a node is told: a session is somebody else's, or was kicked; or that it hears again,
// and something may have been said before.
type news struct {
	kind byte
	claim
}

const (
	newsMoved  = 's'
	newsKicked = 'k'
	newsAgain  = 'a'
)
