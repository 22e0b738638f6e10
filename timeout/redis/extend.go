package redis

import (
	"context"
	"errors"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Extend is engine.Engine's. If some partitions fail and others answer, the error wraps
// ErrPartial.
func (e *Engine) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	good := make([]bool, len(tokens))
	byTopic := make(map[string][]int)
	for i, token := range tokens {
		if _, ok := leaseKey(token.Lease); ok {
			byTopic[token.Topic] = append(byTopic[token.Topic], i)
		}
	}
	v := verb{
		empty: true,
		key:   func(i int) engine.Key { return tokens[i].Key },
		begin: func(at *partition, _ int) *invocation { return invoke(scriptExtend, at, engine.CeilMillis(lease)) },
		add: func(c *invocation, i int) {
			key, _ := leaseKey(tokens[i].Lease)
			c.Args = append(c.Args, tokens[i].ID, key)
		},
		take: func(_ *layout, c *invocation) error {
			for j, is := range []byte(text(c.Answer[0])) {
				good[c.tasks[j]] = is == '1'
			}
			return nil
		},
	}
	var lost losses
	for topic, which := range byTopic {
		var known []int
		err := e.using(ctx, topic, func(l *layout) error {
			known = known[:0]
			for _, i := range which {
				is, err := e.knows(ctx, l, tokens[i])
				if err != nil {
					return err
				}
				if is {
					known = append(known, i)
				}
			}
			return nil
		})
		if err == nil {
			e.eachOf(ctx, topic, known, v, &lost)
		} else if absent(err) != nil {
			lost.add(which, err)
		}
	}
	return tellPartly(good, lost)
}

// absent turns the error of a missing topic into none, for questions with an empty answer.
func absent(err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}
