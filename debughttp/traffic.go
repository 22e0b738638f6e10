package debughttp

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/view"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	// askTimeout is how long event loops may take to ask the sockets of their connections.
	askTimeout = 100 * time.Millisecond

	// maxAsking is how many sockets are asked at a time.
	maxAsking = 16
)

// ask asks the sockets of a page's open connections, and waits for askTimeout at most. nil is no
// answer. A connection may never answer. Its token stays taken, and later calls have fewer.
func (h *Handler) ask(entries []entry) []*view.Traffic {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	answers := make([]atomic.Pointer[view.Traffic], len(entries))
	done := make(chan struct{}, maxAsking)
	var next atomic.Int64
	asking := 0
	for range min(maxAsking, len(entries)) {
		select {
		case h.asking <- struct{}{}:
		default:
			continue
		}
		asking++
		go func() {
			defer func() {
				<-h.asking
				done <- struct{}{}
			}()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(entries) {
					return
				}
				if g := entries[i].guard; g != nil {
					answers[i].Store(askOne(ctx, g))
				}
			}
		}()
	}
	for range asking {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	told := make([]*view.Traffic, len(entries))
	for i := range answers {
		told[i] = answers[i].Load()
	}
	return told
}

// askOne asks a socket. A panic of the connection is no answer.
func askOne(ctx context.Context, g *keepalive.Guard) (told *view.Traffic) {
	defer func() {
		if recover() != nil {
			told = nil
		}
	}()
	if t, ok := keeping.Ask(ctx, g); ok {
		return &t
	}
	return nil
}

// tell adds what a socket has told to a row.
func (c *Connection) tell(t *view.Traffic) {
	if t == nil {
		return
	}
	c.Received, c.Acked = &t.Received, &t.Acked
	if c.RoundTrip == nil && t.RoundTrip > 0 {
		seconds := t.RoundTrip.Seconds()
		c.RoundTrip, c.Measured = &seconds, "kernel"
	}
}
