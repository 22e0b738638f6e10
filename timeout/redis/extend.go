package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Extend is timeout.Engine's. Where some slots fail and others answer, the error wraps
// ErrPartial.
func (e *Engine) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	x := &extension{engine: e, tokens: tokens, lease: lease, good: make([]bool, len(tokens))}
	byTopic := make(map[string][]int)
	for i, token := range tokens {
		if _, ok := leaseKey(token.Lease); ok {
			byTopic[token.Topic] = append(byTopic[token.Topic], i)
		}
	}
	for topic, which := range byTopic {
		if err := x.extend(ctx, topic, which); err != nil {
			x.failure = err
		}
	}
	switch {
	case x.failure == nil:
		return x.good, nil
	case x.answered:
		return x.good, fmt.Errorf("%w: %w", timeout.ErrPartial, x.failure)
	}
	return nil, x.failure
}

// extension is an Extend under way.
type extension struct {
	engine   *Engine
	tokens   []timeout.Token
	lease    time.Duration
	good     []bool
	answered bool // some slot has
	failure  error
}

func (x *extension) extend(ctx context.Context, topic string, which []int) error {
	v := verb{
		key:   func(i int) timeout.Key { return x.tokens[i].Key },
		begin: func(at *place) *invocation { return invoke(scriptExtend, at, timeout.CeilMillis(x.lease)) },
		add: func(c *invocation, i int) {
			key, _ := leaseKey(x.tokens[i].Lease)
			c.Args = append(c.Args, x.tokens[i].ID, key)
		},
		take: func(_ *layout, c *invocation) error {
			x.answered = true
			for j, is := range []byte(text(c.Answer[0])) {
				x.good[c.tasks[j]] = is == '1'
			}
			return nil
		},
		lost: func(err error) { x.failure = err },
	}
	err := x.engine.using(ctx, topic, func(l *layout) error {
		var known []int
		for _, i := range which {
			is, err := x.engine.knows(ctx, l, x.tokens[i])
			if err != nil {
				return err
			}
			if is {
				known = append(known, i)
			}
		}
		which = known
		return nil
	})
	if err == nil {
		err = x.engine.eachOf(ctx, topic, which, v)
	}
	return absent(err)
}

// absent is for what is asked of a topic that is not there, and answered with nothing.
func absent(err error) error {
	if errors.Is(err, timeout.ErrNotFound) {
		return nil
	}
	return err
}
