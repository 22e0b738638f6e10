package sharded

import (
	"context"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// waker implements engine.Waker if all shards do.
type waker struct{ e *core }

// Wake implements engine.Waker. It listens to each shard. When a shard's Wake ends, it listens
// again.
func (w waker) Wake(ctx context.Context, wake func(topic string), ended func(key engine.Key)) error {
	e := w.e
	if err := e.enter(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	var listening sync.WaitGroup
	var mu sync.Mutex
	silent := len(e.shards) // not hearing yet
	for _, s := range e.shards {
		hears := false
		listening.Go(func() {
			s.listen(ctx, func(topic string) {
				mu.Lock()
				if topic == "" && !hears {
					hears = true
					silent--
				}
				deaf := topic == "" && silent > 0
				mu.Unlock()
				if !deaf {
					wake(topic)
				}
			}, ended)
		})
	}
	listening.Wait()
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return nil
}

func (s *shard) listen(ctx context.Context, wake func(topic string), ended func(key engine.Key)) {
	select {
	case <-s.opened:
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		_ = s.engine.(engine.Waker).Wake(ctx, wake, ended) // it only saves time, so any error leads to another try
		select {
		case <-ctx.Done():
		case <-time.After(maxRest):
		}
	}
}
