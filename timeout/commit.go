package timeout

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/groupcommit"
)

// commitTimeout is how long an engine may take for a batch of single calls. Callers can have
// given up long before.
const commitTimeout = 30 * time.Second

// verb changes tasks. Single calls become batches, one batch at a time for each part of the engine. So a
// hanging part holds up only its own callers.
type verb[Q any] struct {
	c     *Center
	check func(Q) error
	key   func(Q) Key
	do    func(context.Context, []Q) ([]Answer, error)
	wakes bool                      // whether tasks may be due earlier than before
	ends  func([]Q, []Answer) []Key // the running tasks whose leases have ended; nil for none

	mu     sync.Mutex // guards byPart
	byPart map[int]*groupcommit.Committer[Q, Answer]
}

// one changes a task.
func (v *verb[Q]) one(ctx context.Context, ask Q) (Answer, error) {
	return checked(v.c, v.check, []Q{ask}, func() (Answer, error) { return v.call(ctx, ask) })
}

// all changes many tasks.
func (v *verb[Q]) all(ctx context.Context, asks []Q) ([]Answer, error) {
	return checked(v.c, v.check, asks, func() ([]Answer, error) { return v.callAll(ctx, asks) })
}

// call is one, during a call.
func (v *verb[Q]) call(ctx context.Context, ask Q) (Answer, error) {
	answer, err := v.of(v.c.partOf(v.key(ask))).Call(ctx, ask)
	if err == nil && v.wakes {
		v.c.wake(v.key(ask), answer.Due)
	}
	if err == nil && v.ends != nil && answer.Was == Running {
		v.c.doubtAll(v.ends([]Q{ask}, []Answer{answer}))
	}
	return answer, err
}

// callAll is all, during a call.
func (v *verb[Q]) callAll(ctx context.Context, asks []Q) ([]Answer, error) {
	answers, err := v.do(ctx, asks)
	if err == nil && v.wakes {
		v.c.wakeAll(len(answers), func(i int) (Key, time.Time) { return v.key(asks[i]), answers[i].Due })
	}
	if err == nil && v.ends != nil {
		v.c.doubtAll(v.ends(asks, answers))
	}
	return answers, err
}

// of returns the Committer of a part.
func (v *verb[Q]) of(part int) *groupcommit.Committer[Q, Answer] {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.byPart[part]
	if c == nil {
		c = &groupcommit.Committer[Q, Answer]{Closed: ErrClosed, Do: v.commit, Fail: func(answer Answer, err error) error { return cmp.Or(err, answer.Err) }}
		if v.byPart == nil {
			v.byPart = make(map[int]*groupcommit.Committer[Q, Answer])
		}
		v.byPart[part] = c
	}
	return c
}

func (v *verb[Q]) commit(asks []Q) ([]Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	return v.do(ctx, asks)
}

// close waits for the batches of callers that have given up. No call may be under way, and none may come.
func (v *verb[Q]) close() {
	for _, c := range v.byPart {
		c.Close()
	}
}
