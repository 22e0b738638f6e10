package sharded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The first and the longest pause between two tries to reach a shard.
const (
	firstRest = 50 * time.Millisecond
	maxRest   = time.Second
)

// openTime is how long opening a shard may take.
const openTime = 30 * time.Minute

// shard is one of the engines. While it is away, its calls fail at once, and its guard tries to
// reach it. A call without an answer in time makes it away. After any other failure the guard
// checks the shard.
type shard struct {
	index  int
	open   func(context.Context) (engine.Engine, error)
	doubts chan struct{} // has one element if the guard must check
	tried  chan struct{} // closed after the first try to open the shard
	opened chan struct{} // closed when there is an engine

	copying chan struct{} // has one element while a topic is copied to the shard

	mu     sync.Mutex // guards the fields below
	engine engine.Engine
	failed error              // of the last try to open the shard
	away   error              // the reason for being away, or nil
	calls  context.Context    // ends when the shard goes away
	hangUp context.CancelFunc // ends calls
}

var errNew = errors.New("was not reached yet")

func newShard(index int, open func(context.Context) (engine.Engine, error)) *shard {
	s := &shard{
		index: index, open: open, away: errNew,
		doubts: make(chan struct{}, 1), tried: make(chan struct{}), opened: make(chan struct{}), copying: make(chan struct{}, 1),
	}
	s.calls, s.hangUp = context.WithCancel(context.Background())
	return s
}

// call calls a shard for work of limited size. The shard must answer within CallTimeout.
func (e *core) call(ctx context.Context, s *shard, do func(context.Context, engine.Engine) error) error {
	return e.callWithin(ctx, s, e.cfg.CallTimeout, do)
}

func (e *core) callWithin(ctx context.Context, s *shard, timeout time.Duration, do func(context.Context, engine.Engine) error) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := e.callLong(within, s, do)
	if err != nil && ctx.Err() == nil && errors.Is(within.Err(), context.DeadlineExceeded) {
		e.lose(s, fmt.Errorf("no answer within %v: %w", timeout, err))
	}
	return err
}

// callLong calls a shard without a time limit of its own.
func (e *core) callLong(ctx context.Context, s *shard, do func(context.Context, engine.Engine) error) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	eng, away, calls := s.engine, s.away, s.calls
	s.mu.Unlock()
	if away != nil {
		return e.of(s, away)
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(calls, cancel)()
	err := do(within, eng)
	if !engine.IsTrouble(err) {
		return err
	}
	if ctx.Err() == nil {
		s.doubt()
	}
	return e.of(s, err)
}

// of adds the shard to an error.
func (e *core) of(s *shard, err error) error {
	if e.closed.Load() {
		return fmt.Errorf("%w: shard %d of %d: %w", engine.ErrClosed, s.index+1, len(e.shards), err)
	}
	return fmt.Errorf("timeout/sharded: shard %d of %d: %w", s.index+1, len(e.shards), err)
}

func (s *shard) doubt() {
	select {
	case s.doubts <- struct{}{}:
	default:
	}
}

// lose makes a shard away and ends its calls.
func (e *core) lose(s *shard, err error) {
	s.mu.Lock()
	first := s.away == nil || errors.Is(s.away, errNew)
	s.away = err
	s.hangUp()
	s.mu.Unlock()
	s.doubt()
	if first && !e.closed.Load() {
		e.cfg.Logger.Warn("timeout/sharded: a shard is away, and its tasks wait", "shard", s.index+1, "of", len(e.shards), "err", err)
	}
}

// regain ends a shard's being away, if it is.
func (e *core) regain(s *shard) {
	s.mu.Lock()
	before := s.away
	if before != nil {
		s.away = nil
		s.calls, s.hangUp = context.WithCancel(context.Background())
	}
	s.mu.Unlock()
	if before != nil && !errors.Is(before, errNew) {
		e.cfg.Logger.Info("timeout/sharded: a shard is back", "shard", s.index+1, "of", len(e.shards))
	}
}

// guard opens a shard, and checks it while it is doubtful, as long as the engine lives.
func (e *core) guard(s *shard) {
	_ = s.tryOpen(e.life)
	close(s.tried)
	select {
	case <-e.admitted:
	case <-e.life.Done():
		return
	}
	for {
		select {
		case <-s.doubts:
		case <-e.life.Done():
			return
		}
		for rest := firstRest; !e.check(s); rest = min(2*rest, maxRest) {
			select {
			case <-time.After(rest):
			case <-e.life.Done():
				return
			}
		}
	}
}

// tryOpen opens a shard, unless it is open. That may take longer than a call, since it may bring large tables up to
// date. Only the guard does so.
func (s *shard) tryOpen(ctx context.Context) error {
	if s.known() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	eng, err := s.open(ctx)
	s.mu.Lock()
	s.engine, s.failed = eng, err
	s.mu.Unlock()
	if err == nil {
		close(s.opened)
	}
	return err
}

// check reports whether a shard is reached. Otherwise it is away.
func (e *core) check(s *shard) bool {
	err := s.tryOpen(e.life)
	if err == nil {
		err = e.reach(s)
	}
	if err != nil {
		e.lose(s, err)
		return false
	}
	e.regain(s)
	return true
}

// reach checks a shard's marker, aligns its topics, and changes something: if the disk of a server hangs, it may answer
// reads only.
func (e *core) reach(s *shard) error {
	ctx, cancel := context.WithTimeout(e.life, e.cfg.CallTimeout)
	defer cancel()
	m, err := readMarker(ctx, s.engine)
	if err == nil {
		err = e.checkMarker(s, m)
	}
	if err == nil {
		err = e.alignLater(ctx, s, s.engine)
	}
	if err != nil {
		return err
	}
	_, err = s.engine.Set(ctx, []engine.Task{{Topic: engine.Reserved, ID: probeID, Due: never}})
	if ctx.Err() == nil && !isTimeout(err) {
		return nil // a refusal is an answer
	}
	return err
}

// isTimeout reports whether a call has waited in vain. A client may be less patient than this engine.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// known returns the engine, or nil if it is not open.
func (s *shard) known() engine.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}
