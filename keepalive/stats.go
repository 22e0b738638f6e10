package keepalive

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// Stats is what a Keeper has done, at one moment.
type Stats struct {
	Conns   int    // guarded connections
	Leaving int    // connections being closed: their farewell is under way
	Opened  uint64 // connections ever guarded

	RefusedFull   uint64 // connections closed as they came: there were Room.MaxConns
	RefusedPerKey uint64 // there were Room.MaxPerKey of the same peer; one identified later is in Closed
	RefusedDrain  uint64 // see Keeper.Drain

	Closed     map[Reason]uint64 // guarded connections ended before Keeper.Close, or by a farewell begun before it
	WouldClose map[Reason]uint64 // with Closing.DryRun

	Spared    uint64  // not closed because the socket had heard of the peer, or may have; with ActivityKernel, lived
	Slow      uint64  // of those: bytes wait for this program to read them
	Probes    uint64  // sent
	Panics    uint64  // in functions of the user
	Reduction float64 // of timeouts by pressure: 0 not at all, 1 as much as can be
	Draining  bool    // new connections are refused

	Ages       histogram.Durations // of connections at their end
	RoundTrips histogram.Durations // of probes and their answers, see Guard.Pong

	// Silences and NearMisses are counted with Config.Advise, since the start or since Update
	// last changed Timeout. A near miss is a silence that its peer has ended in the last fifth of the
	// timeout.
	Silences   []Silence
	NearMisses uint64

	Wheel wheel.Stats
}

// Stats returns the Keeper's figures.
func (k *Keeper) Stats() Stats {
	p := k.policy.Load()
	s := Stats{
		Conns:         k.Len(),
		Leaving:       int(k.leaving.Load()),
		Opened:        k.counts.opened.Load(),
		RefusedFull:   k.counts.refusedFull.Load(),
		RefusedPerKey: k.counts.refusedPerKey.Load(),
		RefusedDrain:  k.counts.refusedDrain.Load(),
		Closed:        map[Reason]uint64{},
		WouldClose:    map[Reason]uint64{},
		Spared:        k.counts.spared.Load(),
		Slow:          k.counts.slow.Load(),
		Probes:        k.counts.probes.Load(),
		Panics:        k.counts.panics.Load(),
		Reduction:     k.pressure(p, time.Duration(k.now())),
		Draining:      k.draining.Load(),
		Ages:          k.ages.get(),
		RoundTrips:    k.trips.get(),
		Wheel:         k.pool.Wheel().Stats(),
	}
	s.Silences, s.NearMisses = k.advice(p)
	for r := range endOfAll {
		if n := k.counts.closed[r].Load(); n > 0 {
			s.Closed[r] = n
		}
		if n := k.counts.dry[r].Load(); n > 0 {
			s.WouldClose[r] = n
		}
	}
	return s
}

// counts are the Keeper's counters.
type counts struct {
	opened, spared, slow, probes, panics     atomic.Uint64
	refusedFull, refusedPerKey, refusedDrain atomic.Uint64
	closed, dry                              [endOfAll]atomic.Uint64 // by Reason
}

// refuse counts a refused connection.
func (k *Keeper) refuse(why error) {
	switch {
	case errors.Is(why, ReasonDrain):
		k.counts.refusedDrain.Add(1)
	case errors.Is(why, errPerKey):
		k.counts.refusedPerKey.Add(1)
		k.bursts.note(k, func(b *bursts) { b.perKey++ })
	case errors.Is(why, ReasonFull):
		k.counts.refusedFull.Add(1)
		k.bursts.note(k, func(b *bursts) { b.full++ })
	}
}

// warnSlow counts a connection spared because this program is slow, and logs the count once a
// minute at most.
func (k *Keeper) warnSlow() {
	n := k.counts.slow.Add(1)
	const minute = int64(time.Minute)
	if now, last := int64(k.now()), k.slow.Load(); (last == 0 || now-last >= minute) && k.slow.CompareAndSwap(last, max(now, 1)) {
		k.log.Warn("keepalive: bytes wait that this program does not read; their connections get more time", "so_far", n)
	}
}

// histogramOf is a histogram for several goroutines at the same time.
type histogramOf struct {
	mu sync.Mutex
	h  histogram.Durations
}

func (h *histogramOf) observe(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.h.Observe(d)
}

func (h *histogramOf) get() histogram.Durations {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.h
}
