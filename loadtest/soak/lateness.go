package main

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	canaries = 16
	beat     = 50 * time.Millisecond // of a canary
)

// lateness is by how much this program is late with what comes over its sockets. Canaries tell it: each is a
// connection that brings a byte now and then.
type lateness struct {
	notable time.Duration // what may have kept clients from an answer in time
	keep    time.Duration // how long it is known

	mu      sync.Mutex
	sent    [canaries]time.Time // the byte that has not been read; zero for none
	delays  []delay             // notable ones
	longest time.Duration
}

// delay is a byte that was read late.
type delay struct{ sent, read time.Time }

// watch starts the canaries. They end with ctx.
func (l *lateness) watch(ctx context.Context, running *sync.WaitGroup) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	for i := range canaries {
		from, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		to, err := listener.Accept()
		if err != nil {
			_ = from.Close()
			return err
		}
		running.Go(func() {
			defer from.Close()
			for ; ctx.Err() == nil; sleep(ctx, beat) {
				l.send(i, time.Now())
				_, _ = from.Write([]byte("x"))
			}
		})
		running.Go(func() {
			defer to.Close()
			for some := make([]byte, 64); ; l.read(i, time.Now()) {
				if _, err := to.Read(some); err != nil {
					return
				}
			}
		})
	}
	return nil
}

func (l *lateness) send(canary int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent[canary].IsZero() {
		l.sent[canary] = now
	}
}

func (l *lateness) read(canary int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := l.sent[canary]
	l.sent[canary] = time.Time{}
	if sent.IsZero() { // by the read before
		return
	}
	l.longest = max(l.longest, now.Sub(sent))
	if now.Sub(sent) >= l.notable {
		l.delays = slices.DeleteFunc(l.delays, func(d delay) bool { return now.Sub(d.read) > l.keep })
		l.delays = append(l.delays, delay{sent, now})
	}
}

// since returns by how much this program was late at most from then until now, if that is notable.
func (l *lateness) since(then, now time.Time) (late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sent := range l.sent {
		if !sent.IsZero() && now.Sub(sent) >= l.notable {
			late = max(late, now.Sub(sent))
		}
	}
	for _, d := range l.delays {
		if d.read.After(then) {
			late = max(late, d.read.Sub(d.sent))
		}
	}
	return late
}
