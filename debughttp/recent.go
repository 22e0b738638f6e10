package debughttp

import (
	"sync"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// ended is a connection that has ended.
type ended struct {
	keepalive.End        // without Guard, which would keep its memory
	number        uint64 // counts the ends, from 1
	label         string
}

// recent keeps the last ends of connections, as many as ends has capacity for.
type recent struct {
	mu   sync.Mutex
	ends []ended // a ring
	seen uint64  // how many there were; the next one goes to this, modulo the capacity
}

// add is called by the closer of a connection, so it does as little as can be.
func (r *recent) add(end keepalive.End, label string) {
	end.Guard = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	e := ended{end, r.seen + 1, label}
	switch size := cap(r.ends); {
	case len(r.ends) < size:
		r.ends = append(r.ends, e)
	case size > 0:
		r.ends[r.seen%uint64(size)] = e
	}
	r.seen++
}

// list returns the ends, the last one first, and how many there have been.
func (r *recent) list() (ends []ended, seen uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ends = make([]ended, 0, len(r.ends))
	for i := range uint64(len(r.ends)) {
		ends = append(ends, r.ends[(r.seen-1-i)%uint64(cap(r.ends))])
	}
	return ends, r.seen
}

// counts returns how many ends are kept, and how many there have been.
func (r *recent) counts() (kept int, seen uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ends), r.seen
}
