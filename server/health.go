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

// ErrNotRunning is what Health returns where the server does not listen, or not any more.
var ErrNotRunning = errors.New("server: not running")

// Health returns nil where the server makes progress: each event loop that has ever had
// a connection runs a task before ctx is done, and the hand of the wheel has moved since
// Health was asked before, if that is some time ago. Otherwise it says what does not. It
// is to be asked again and again, and works while the server shuts down, too.
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

// checkLoops has each loop run a task.
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

// hand remembers where the hand of the wheel was seen, and since when it is there.
type hand struct {
	mu    sync.Mutex
	at    uint64
	since time.Time
}

// check returns an error where the hand has not moved for too long. Where it seems so,
// the hand gets another moment: this program may have stood still altogether.
func (h *hand) check(ctx context.Context, now func() uint64, tick time.Duration) error {
	patience := 2*tick + stuckAfter
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

// stands returns for how long the hand has been where it is.
func (h *hand) stands(at uint64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at != h.at || h.since.IsZero() {
		h.at, h.since = at, time.Now()
	}
	return time.Since(h.since)
}
