package debughttp

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// restShare bounds the looks at all connections to a quarter of one processor: after each
	// comes a rest of so many times its time.
	restShare = 3

	// maxRest is the longest rest. A look that long has mostly waited for a processor, and a page
	// waits for 20 s.
	maxRest = 5 * time.Second

	// maxWaiting is how many requests may wait for their look.
	maxWaiting = 16
)

var errBusy = errors.New("debughttp: too many requests wait for a look at all connections: try again in a few seconds")

// looks lets one look at all connections go on at a time.
type looks struct {
	waiting chan struct{} // has a token for each request
	running chan struct{} // has a token while a look goes on
	next    time.Time     // when the next one may begin; of the holder of running
	closed  chan struct{}
	once    sync.Once
}

func newLooks() *looks {
	return &looks{waiting: make(chan struct{}, maxWaiting), running: make(chan struct{}, 1), closed: make(chan struct{})}
}

// close ends it, and waits for a running look.
func (l *looks) close() {
	l.once.Do(func() { close(l.closed) })
	l.running <- struct{}{}
	<-l.running
}

// do calls f at its turn. It returns errBusy if too many requests wait already, and an error
// after close, or if ctx is done first.
func (l *looks) do(ctx context.Context, f func()) error {
	select {
	case l.waiting <- struct{}{}:
	default:
		return errBusy
	}
	defer func() { <-l.waiting }()
	select {
	case l.running <- struct{}{}:
	case <-l.closed:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.running }()
	rest := time.NewTimer(time.Until(l.next))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-l.closed:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	begin := time.Now()
	defer func() { l.next = time.Now().Add(min(restShare*time.Since(begin), maxRest)) }()
	f()
	return nil
}
