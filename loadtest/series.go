package main

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// series is the events of a run by time, for the page: the figures of a result, but for each interval
// of the run. All workers count into the same bins: histograms for each of them would take more memory
// than the connections do. An event costs an atomic addition, and the heartbeat itself two system
// calls. A nil series counts nothing.
type series struct {
	width time.Duration // of an interval
	bins  [maxBins]atomic.Pointer[bin]
}

const (
	// minWidth still has ten ticks of the kernel's clock for processor time.
	minWidth = 250 * time.Millisecond

	// someBins is how many there are at most if the ramp is as fast as allowed.
	someBins = 300

	// maxBins leaves room for a slower ramp. Anything later is in the last.
	maxBins = 1 << 16
)

// newSeries has suitable intervals for the length of a run.
func newSeries(expected time.Duration) *series {
	width := minWidth
	for _, next := range []float64{0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400} {
		if expected <= width*someBins {
			break
		}
		width = time.Duration(next * float64(time.Second))
	}
	return &series{width: width}
}

// expected is how long a run takes when the ramp is as fast as allowed.
func (cfg config) expected() time.Duration {
	ramp := time.Duration(float64(cfg.conns+cfg.probes) / float64(cfg.ramp) * float64(time.Second))
	return ramp + cfg.duration + cfg.margin()
}

// bin is one interval.
type bin struct {
	events [events]atomic.Int64
	waits  [waits]spread
}

// event is a kind of event to count.
type event int

const (
	opened         event = iota // had their first answer
	notOpened                   // never came to be
	fellSilent                  // sent their last heartbeat
	silentGone                  // were closed after that, early or not
	closedDue                   // silent ones, after their deadline
	closedEarly                 // silent ones, before it
	closedLive                  // others
	closedAfter                 // when the run was over
	closedWithNode              // of a fleet, when it was killed or told to end
	sent                        // heartbeats
	answered                    // heartbeats
	events
)

// wait is a kind of waiting.
type wait int

const (
	roundTrip      wait = iota // by when the heartbeat was due
	probeRoundTrip             // the same of the probes
	lateness                   // of closes, by when they were seen
	lag                        // from when a heartbeat was due until it was sent
	waits
)

// count counts an event at a time since the start of the run.
func (s *series) count(e event, at time.Duration) {
	if s != nil {
		s.bin(at).events[e].Add(1)
	}
}

// record adds a wait at a time since the start of the run.
func (s *series) record(w wait, at, d time.Duration) {
	if s != nil {
		s.bin(at).waits[w].record(d)
	}
}

func (s *series) bin(at time.Duration) *bin {
	slot := &s.bins[min(max(at/s.width, 0), maxBins-1)]
	b := slot.Load()
	if b == nil {
		slot.CompareAndSwap(nil, new(bin))
		b = slot.Load()
	}
	return b
}

// spread is a histogram of microseconds for several goroutines: one bucket for each up to twice
// perOctave, and from there on perOctave for each power of two, right to a thirtieth. It keeps the
// largest value as it is.
type spread struct {
	buckets [spreadBuckets]atomic.Uint32
	largest atomic.Int64
}

const (
	octaveBits = 4
	perOctave  = 1 << octaveBits

	longestWait   = time.Hour
	spreadBuckets = (32 - octaveBits + 1) * perOctave // an hour has 32 bits
)

func (s *spread) record(d time.Duration) {
	us := min(max(d, 0), longestWait).Microseconds()
	s.buckets[bucketOf(us)].Add(1)
	for {
		old := s.largest.Load()
		if us <= old || s.largest.CompareAndSwap(old, us) {
			return
		}
	}
}

func bucketOf(us int64) int {
	octave := max(bits.Len64(uint64(us))-octaveBits-1, 0)
	return octave<<octaveBits + int(us>>octave)
}

// middleOf returns what stands for all values in a bucket.
func middleOf(bucket int) float64 {
	octave := max(bucket>>octaveBits-1, 0)
	low := int64(bucket-octave<<octaveBits) << octave
	return float64(low) + float64(int64(1)<<octave-1)/2
}
