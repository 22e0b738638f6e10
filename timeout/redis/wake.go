package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Wake is engine.Waker's. It listens to a channel, and connects again by itself when the
// connection is lost.
func (e *Engine) Wake(ctx context.Context, wake func(topic string), ended func(key engine.Key)) error {
	if e.redis.Closed() {
		return engine.ErrClosed
	}
	sub := e.redis.Client().Subscribe(ctx, e.channel)
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return e.redis.Wrap(fmt.Errorf("timeout/redis: subscribing to %s: %w", e.channel, err))
	}
	wake("")
	messages := sub.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case message, open := <-messages:
			if !open {
				return engine.ErrClosed
			}
			switch message := message.(type) {
			case *redis.Subscription: // connected again, after a gap
				wake("")
			case *redis.Message:
				if topic, ids, found := strings.Cut(message.Payload, endedMark); found {
					for id := range strings.SplitSeq(ids, "\n") {
						ended(engine.Key{Topic: topic, ID: id})
					}
				} else if topic, ok := e.hear(message.Payload); ok {
					wake(topic)
				}
			}
		}
	}
}

// endedMark is between the topic and the IDs of tasks whose leases have ended: see tellEnded in head.lua. A program of an earlier
// version takes no message of so many lines.
const endedMark = "\n\n\n\n"

// hear notes what a message says: topic, generation, partition and time.
func (e *Engine) hear(message string) (topic string, ok bool) {
	parts := strings.Split(message, "\n")
	if len(parts) != 4 {
		return "", false
	}
	partition, err := strconv.Atoi(parts[2])
	at, err2 := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || err2 != nil || partition < 0 {
		return "", false
	}
	l := e.known(parts[0])
	if l != nil && partOf(l.Gen) == parts[1] {
		l.due.set(partition, at)
	}
	return parts[0], true
}
