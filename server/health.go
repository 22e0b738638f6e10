package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// stuckAfter is how long the hand of the wheel may stand still, besides two ticks: more
// than a busy machine makes it.
const stuckAfter = 2 * time.Second

// ErrNotRunning is the error of Health before the server listens, and after its end.
var ErrNotRunning = errors.New("server: not running")

// Health returns nil if the server makes progress: each event loop with a connection, now or
// earlier, runs a task before ctx is done, and the hand of the wheel has moved since an earlier
// call of Health, some time ago. Otherwise the error names what stands still. Call it again and
// again. It works while the server shuts down, too.
func (s *Server) Health(ctx context.Context) error {
	select {
	case <-s.ready:
	default:
		return ErrNotRunning
	}
	select {
	case <-s.gone:
		return ErrNotRunning
	default:
	}
	if err := s.hand.check(ctx, func() uint64 { return s.keeper.Stats().Wheel.Now }, s.keeper.Config().Tick); err != nil {
		return err
	}
	return s.checkLoops(ctx)
}

// checkLoops runs a task in each loop.
func (s *Server) checkLoops(ctx context.Context) error {
	loops, answers := 0, make(chan struct{}, maxLoops)
	for loop := range s.loops.Range {
		loops++
		err := loop.(gnet.EventLoop).Execute(ctx, gnet.RunnableFunc(func(context.Context) error {
			answers <- struct{}{}
			return nil
		}))
		if err != nil {
			return fmt.Errorf("server: event loop: %w", err)
		}
	}
	for ran := range loops {
		select {
		case <-answers:
		case <-s.gone:
			return ErrNotRunning
		case <-ctx.Done():
			return fmt.Errorf("server: %d of %d event loops did not answer: %w", loops-ran, loops, ctx.Err())
		}
	}
	return nil
}

// hand remembers the last known position of the wheel's hand, and since when it is there.
type hand struct {
	mu    sync.Mutex
	at    uint64
	since time.Time
}

// check returns an error if the hand has not moved for too long. First the hand gets another
// moment: this whole program may have stood still.
func (h *hand) check(ctx context.Context, now func() uint64, tick time.Duration) error {
	patience := 2*tick + max(time.Second, 10*tick) + stuckAfter // and the grace after a stall
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for h.stands(now()) >= patience {
		select {
		case <-time.After(max(tick/2, time.Millisecond)):
		case <-ctx.Done():
			return fmt.Errorf("server: the hand of the wheel has not moved for %v", h.stands(now()).Round(time.Millisecond))
		}
	}
	return nil
}

// stands returns how long the hand has been at its position.
func (h *hand) stands(at uint64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at != h.at || h.since.IsZero() {
		h.at, h.since = at, time.Now()
	}
	return time.Since(h.since)
}
