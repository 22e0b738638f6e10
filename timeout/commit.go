package timeout

import (
	"context"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/groupcommit"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// commitTimeout is how long an engine may take for a batch of single calls. Callers can have
// given up long before.
const commitTimeout = 30 * time.Second

// committers makes batches of single calls, one batch at a time for each part of the engine. So a
// hanging part holds up only its own callers.
type committers[Q any] struct {
	key  func(Q) Key
	part func(Key) int
	do   func(context.Context, []Q) ([]Answer, error)

	mu     sync.Mutex // guards byPart
	byPart map[int]*groupcommit.Committer[Q, Answer]
}

func newCommitters[Q any](e engine.Engine, key func(Q) Key, do func(context.Context, []Q) ([]Answer, error)) *committers[Q] {
	part := func(key Key) int { return engine.PartOf(e, key) }
	return &committers[Q]{key: key, part: part, do: do, byPart: make(map[int]*groupcommit.Committer[Q, Answer])}
}

// call makes one call in a batch.
func (l *committers[Q]) call(ctx context.Context, ask Q) (Answer, error) {
	return l.of(l.part(l.key(ask))).Call(ctx, ask)
}

// of returns the Committer of a part.
func (l *committers[Q]) of(part int) *groupcommit.Committer[Q, Answer] {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.byPart[part]
	if c == nil {
		c = &groupcommit.Committer[Q, Answer]{Closed: ErrClosed, Do: l.commit, Fail: failed}
		l.byPart[part] = c
	}
	return c
}

func (l *committers[Q]) commit(asks []Q) ([]Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	return l.do(ctx, asks)
}

// failed returns the error of one call of a batch.
func failed(answer Answer, err error) error {
	if err != nil {
		return err
	}
	return answer.Err
}

// close waits for the batches of callers that have given up. No call may be under way, and none may come.
func (l *committers[Q]) close() {
	for _, c := range l.byPart {
		c.Close()
	}
}
