package keepalive

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// Stats is what a Keeper has done, at one moment.
type Stats struct {
	Conns      int      // connections that are guarded
	Leaving    int      // connections that are being closed: last words are said
	Opened     uint64   // connections that have ever been guarded
	Refused    Refusals // connections that were not, and were closed
	Closed     Counts   // of those that were guarded, by reason; what ends after Keeper.Close is not counted
	WouldClose Counts   // by reason, with Config.DryRun
	Spared     uint64   // not closed because the socket had heard of the peer: with ActivityKernel, lived
	Probes     uint64   // sent
	Panics     uint64   // functions of the user that panicked
	Reduction  float64  // how much timeouts are shortened by pressure: 0 not, 1 as much as can be
	Draining   bool     // new connections are refused

	// Ages is how old connections were when they were closed.
	Ages wheel.Histogram

	// RoundTrips is how long peers took to answer probes.
	RoundTrips wheel.Histogram

	Wheel wheel.Stats
}

// Counts is how many connections were closed, by [Reason].
type Counts [reasons]uint64

// Refusals is how many connections were closed as they came.
type Refusals struct {
	Full     uint64 // there were Config.MaxConns
	PerKey   uint64 // there were Config.MaxPerKey of the same peer; one that was identified later is in Closed
	Draining uint64 // see Keeper.Drain
}

// Stats returns the Keeper's figures.
func (k *Keeper) Stats() Stats {
	s := Stats{
		Conns:      k.Len(),
		Leaving:    int(k.leaving.Load()),
		Opened:     k.opened.Load(),
		Refused:    k.refused.get(),
		Spared:     k.spared.Load(),
		Probes:     k.probes.Load(),
		Panics:     k.panics.Load(),
		Reduction:  k.reduction(),
		Draining:   k.draining.Load(),
		Ages:       k.ages.get(),
		RoundTrips: k.trips.get(),
		Wheel:      k.pool.Stats(),
	}
	for r := range reasons {
		s.Closed[r], s.WouldClose[r] = k.closed[r].Load(), k.dry[r].Load()
	}
	return s
}

// refused counts refusals.
type refused struct{ full, perKey, draining atomic.Uint64 }

func (r *refused) get() Refusals {
	return Refusals{Full: r.full.Load(), PerKey: r.perKey.Load(), Draining: r.draining.Load()}
}

// histogram is one that several goroutines may use at the same time.
type histogram struct {
	mu sync.Mutex
	h  wheel.Histogram
}

func (h *histogram) observe(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.h.Observe(d)
}

func (h *histogram) get() wheel.Histogram {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.h
}
