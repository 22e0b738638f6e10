package debughttp

import (
	"sync"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// recent keeps the last ends of connections, as many as ends has capacity for.
type recent struct {
	mu   sync.Mutex
	ends []keepalive.End // a ring
	seen uint64          // how many there were; the next one goes to this, modulo the capacity
}

// add is called by the closer of a connection, so it does as little as can be.
func (r *recent) add(end keepalive.End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch size := cap(r.ends); {
	case len(r.ends) < size:
		r.ends = append(r.ends, end)
	case size > 0:
		r.ends[r.seen%uint64(size)] = end
	}
	r.seen++
}

// list returns the ends, the last one first, and how many there have been.
func (r *recent) list() (ends []keepalive.End, seen uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range uint64(len(r.ends)) {
		ends = append(ends, r.ends[(r.seen-1-i)%uint64(cap(r.ends))])
	}
	return ends, r.seen
}
