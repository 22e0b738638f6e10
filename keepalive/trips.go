package keepalive

import (
	"sync"
	"time"
)

// RoundTrips is how long peers took to answer probes.
type RoundTrips struct {
	Count     uint64
	Mean, Max time.Duration
}

// trips adds them up.
type trips struct {
	mu  sync.Mutex
	n   uint64
	sum time.Duration
	max time.Duration
}

func (t *trips) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	t.sum += d
	t.max = max(t.max, d)
}

func (t *trips) get() RoundTrips {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := RoundTrips{Count: t.n, Max: t.max}
	if t.n > 0 {
		r.Mean = t.sum / time.Duration(t.n)
	}
	return r
}
