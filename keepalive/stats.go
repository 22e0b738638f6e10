package keepalive

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
	"github.com/heartwheel-go/heartwheel/wheel"
	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// Stats is what a Keeper has done, at one moment.
type Stats struct {
	Conns   int    // guarded connections
	Leaving int    // connections being closed: their farewell is under way
	Opened  uint64 // connections ever guarded

	RefusedFull   uint64 // connections refused as they came: there were Room.MaxConns
	RefusedPerKey uint64 // there were Room.MaxPerKey of the same peer; one identified later is in Closed
	RefusedDrain  uint64 // see Keeper.Drain

	RefusedPerUser uint64 // calls of Guard.SetKey for a key with all of its connections; of those refused later, Closed has the end

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
		Leaving:       int(k.unclosed.Load()),
		Opened:        k.counts.opened.Load(),
		RefusedFull:   k.counts.refusedFull.Load(),
		RefusedPerKey: k.counts.refusedPerKey.Load(),
		RefusedDrain:  k.counts.refusedDrain.Load(),

		RefusedPerUser: k.counts.refusedPerUser.Load(),

		Closed:     map[Reason]uint64{},
		WouldClose: map[Reason]uint64{},
		Spared:     k.counts.spared.Load(),
		Slow:       k.counts.slow.Load(),
		Probes:     k.counts.probes.Load(),
		Panics:     k.counts.panics.Load(),
		Reduction:  k.pressure(p, time.Duration(k.now())),
		Draining:   k.draining.Load(),
		Ages:       k.ages.get(),
		RoundTrips: k.trips.get(),
		Wheel:      k.wheel.Stats(),
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
	refusedPerUser                           atomic.Uint64
	closed, dry                              [endOfAll]atomic.Uint64 // by Reason
}

// seldom is when a line was last logged that many connections may be a reason for, by the wheel's time.
type seldom struct{ last atomic.Int64 }

// allows reports whether to log the line at an instant: the first time, and then once a minute at most.
func (s *seldom) allows(now rules.Time) bool {
	last := s.last.Load()
	return (last == 0 || now.Sub(rules.Time(last)) >= time.Minute) && s.last.CompareAndSwap(last, int64(max(now, 1)))
}

// warnSlow counts a connection spared because this program is slow, and logs the count.
func (k *Keeper) warnSlow() {
	if n := k.counts.slow.Add(1); k.slowTold.allows(k.now()) {
		k.log.Warn("keepalive: bytes wait that this program does not read; their connections get more time", "so_far", n)
	}
}

// warnFull logs how many connections had no room so far.
func (k *Keeper) warnFull() {
	if c := &k.counts; k.fullTold.allows(k.now()) {
		k.log.Warn("keepalive: no room for some connections", "conns", k.Len(), "refused", c.refusedFull.Load(), "refused_per_key", c.refusedPerKey.Load(),
			"refused_per_user", c.refusedPerUser.Load(), "closed", c.closed[ReasonFull].Load(), "evicted", c.closed[ReasonEvicted].Load())
	}
}

// histogramOf is a histogram that is safe for concurrent use.
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

// Silence is how many silences were at least so long, see Config.Advise. A timeout of that
// length would have closed so many connections.
//
// Silences beyond the timeout in force are only known with Closing.DryRun: otherwise their
// connections were closed at the timeout.
type Silence struct {
	Share  float64       // of the timeout, of Config or of the connection's own
	Length time.Duration // Share of Config.Timeout
	Count  uint64
}

// advisedShares are the lengths in Stats.Silences. A silence reaches 1 and more only if nobody is closed: with DryRun, or
// because the user lets a connection live.
var advisedShares = [...]float64{0.125, 0.25, 0.375, 0.5, 0.625, 0.75, nearMiss, 0.875, 1, 1.25, 1.5, 1.75, 2}

// nearMiss is the share beyond which a silence, ended by its peer, nearly ended its connection.
const nearMiss = 0.8

// lengths are numbers of silences: those of at least each share, and the near misses.
type lengths struct {
	reached    [len(advisedShares)]uint64
	nearMisses uint64
}

// add counts a silence. heard says that its peer has ended it.
func (l *lengths) add(silence, timeout time.Duration, heard bool) {
	share := float64(silence) / float64(timeout)
	for i := range l.reached {
		if share >= advisedShares[i] {
			l.reached[i]++
		}
	}
	if heard && share >= nearMiss && share < 1 {
		l.nearMisses++
	}
}

// advisor counts silences as they end. Stats adds those that go on.
type advisor struct {
	mu    sync.Mutex
	ended lengths
	told  lengths // by Stats: a silence that ends while it looks at all of them may be counted twice, and no count may shrink
}

// endsSilence counts the silence of a connection, which ends now. heard says that its peer ends it.
func (g *Guard) endsSilence(silence time.Duration, heard bool) {
	p := g.keeper.policy.Load()
	if silence < p.Tick || p.advisor == nil {
		return
	}
	if timeout := g.advisedTimeout(p); timeout > 0 && float64(silence) >= advisedShares[0]*float64(timeout) {
		p.advisor.mu.Lock()
		p.advisor.ended.add(silence, timeout, heard)
		p.advisor.mu.Unlock()
	}
}

// advisedTimeout returns the timeout of the connection, or 0 if it is held: then no timeout could end it.
func (g *Guard) advisedTimeout(p *policy) time.Duration {
	g.mu.Lock()
	s := g.state()
	g.mu.Unlock()
	switch {
	case s.Holds > 0:
		return 0
	case s.Own > 0:
		return s.Own
	}
	return p.Timeout
}

// advice returns the counts, and none without Config.Advise. It looks at all connections.
func (k *Keeper) advice(p *policy) (silences []Silence, nearMisses uint64) {
	a := p.advisor
	if a == nil {
		return nil, 0
	}
	var open lengths
	for g := range k.Guards() {
		if timeout := g.advisedTimeout(p); timeout > 0 {
			open.add(g.timer.SinceTouch(), timeout, false)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, share := range advisedShares {
		a.told.reached[i] = max(a.told.reached[i], a.ended.reached[i]+open.reached[i])
		silences = append(silences, Silence{
			Share:  share,
			Length: rules.Saturated(float64(p.Timeout) * share),
			Count:  a.told.reached[i],
		})
	}
	return silences, a.ended.nearMisses
}
