package sharded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// How long a shard that is away is left alone before it is tried again.
const (
	firstRest = 50 * time.Millisecond
	maxRest   = time.Second
)

// shard is one of the engines. It is asked, or it is away: then its calls fail at once, and its
// guard tries to reach it. A call that got no answer in time has it be away; after any other
// failure the guard looks whether it is.
type shard struct {
	place  int
	open   func(context.Context) (timeout.Engine, error)
	doubts chan struct{} // has one element where the guard shall look
	opened chan struct{} // closed when there is an engine

	mu     sync.Mutex // guards what follows
	engine timeout.Engine
	away   error              // why it is not asked, or nil
	calls  context.Context    // ends when the shard is taken for away since it is silent
	hangUp context.CancelFunc // ends them
}

var errNew = errors.New("was not reached yet")

func newShard(place int, open func(context.Context) (timeout.Engine, error)) *shard {
	s := &shard{place: place, open: open, doubts: make(chan struct{}, 1), opened: make(chan struct{}), away: errNew}
	s.calls, s.hangUp = context.WithCancel(context.Background())
	return s
}

// call has a shard do something of limited size, which has to answer within Patience.
func (e *core) call(ctx context.Context, s *shard, do func(context.Context, timeout.Engine) error) error {
	return e.callWithin(ctx, s, e.cfg.Patience, do)
}

func (e *core) callWithin(ctx context.Context, s *shard, patience time.Duration, do func(context.Context, timeout.Engine) error) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := e.callLong(within, s, do)
	if err != nil && ctx.Err() == nil && errors.Is(within.Err(), context.DeadlineExceeded) {
		e.lose(s, fmt.Errorf("no answer within %v: %w", patience, err))
	}
	return err
}

// callLong has a shard do something that may take its time.
func (e *core) callLong(ctx context.Context, s *shard, do func(context.Context, timeout.Engine) error) error {
	s.mu.Lock()
	engine, away, calls := s.engine, s.away, s.calls
	s.mu.Unlock()
	if away != nil {
		return e.of(s, away)
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(calls, cancel)()
	err := do(within, engine)
	if !isTrouble(err) {
		return err
	}
	if ctx.Err() == nil {
		s.doubt()
	}
	return e.of(s, err)
}

// of says which shard an error is of.
func (e *core) of(s *shard, err error) error {
	if e.closed.Load() {
		return fmt.Errorf("%w: shard %d of %d: %w", timeout.ErrClosed, s.place+1, len(e.shards), err)
	}
	return fmt.Errorf("timeout/sharded: shard %d of %d: %w", s.place+1, len(e.shards), err)
}

// isTrouble reports whether an error is of the shard, and not its answer.
func isTrouble(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range []error{
		timeout.ErrArgument, timeout.ErrNotFound, timeout.ErrConflict, timeout.ErrFenced, timeout.ErrUnsupported, timeout.ErrFull, timeout.ErrClosed,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

func (s *shard) doubt() {
	select {
	case s.doubts <- struct{}{}:
	default:
	}
}

// lose has a shard be away, and ends its calls.
func (e *core) lose(s *shard, err error) {
	s.mu.Lock()
	first := s.away == nil || errors.Is(s.away, errNew)
	s.away = err
	s.hangUp()
	s.mu.Unlock()
	s.doubt()
	if first && !e.closed.Load() {
		e.cfg.Logger.Warn("timeout/sharded: a shard is away, and its tasks wait", "shard", s.place+1, "of", len(e.shards), "err", err)
	}
}

// regain has a shard be asked again.
func (e *core) regain(s *shard) {
	s.mu.Lock()
	before := s.away
	s.away = nil
	s.calls, s.hangUp = context.WithCancel(context.Background())
	s.mu.Unlock()
	if before != nil && !errors.Is(before, errNew) {
		e.cfg.Logger.Info("timeout/sharded: a shard is back", "shard", s.place+1, "of", len(e.shards))
	}
}

// guard looks after a shard as long as the engine lives.
func (e *core) guard(s *shard) {
	for {
		select {
		case <-s.doubts:
		case <-e.life.Done():
			return
		}
		for rest := firstRest; ; rest = min(2*rest, maxRest) {
			err := e.reach(e.life, s)
			if err == nil {
				break
			}
			e.lose(s, err)
			select {
			case <-time.After(rest):
			case <-e.life.Done():
				return
			}
		}
		e.settleDoubt(s)
	}
}

// settleDoubt has a shard that was reached be asked, where it was not.
func (e *core) settleDoubt(s *shard) {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if away != nil {
		e.regain(s)
	}
}

// reach opens a shard where that was not done, and looks whether it answers, is the one that it
// should be, and has the topics that it should have.
func (e *core) reach(ctx context.Context, s *shard) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Patience)
	defer cancel()
	engine, err := s.reached(ctx)
	if err != nil {
		return err
	}
	m, err := readMark(ctx, engine)
	if err != nil {
		return err
	}
	if err := e.checkMark(s, m); err != nil {
		return err
	}
	return e.align(ctx, s, engine)
}

// known returns the engine, or nil where it is not open.
func (s *shard) known() timeout.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

// reached returns the engine, and opens it where it is not open.
func (s *shard) reached(ctx context.Context) (timeout.Engine, error) {
	if engine := s.known(); engine != nil {
		return engine, nil
	}
	engine, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.engine = engine
	s.mu.Unlock()
	close(s.opened)
	return engine, nil
}
