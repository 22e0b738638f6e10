package fleet

import (
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/proc"
)

// usage is what the processes of a fleet have used until three moments.
type usage struct {
	before, steady, after fleetReading // at the begin and the end of the steady phase, and at the end of the run
}

// fleetReading is what was used until a moment.
type fleetReading struct {
	at         time.Time
	redis      time.Duration
	redisBytes int64
	nodes      map[*node]nodeReading
}

type nodeReading struct {
	used     time.Duration
	bytes    int64
	sessions int // connections of clients
}

// BeginSteady begins the steady phase: all sessions are there.
func (f *Fleet) BeginSteady() { f.usage.before = f.measure() }

// measure reads the usage until now.
func (f *Fleet) measure() fleetReading {
	r := fleetReading{at: time.Now(), nodes: map[*node]nodeReading{}}
	if f.redis != nil {
		r.redis, r.redisBytes = proc.ProcessorTime(f.redis.PID()), proc.ResidentBytes(f.redis.PID())
	}
	for _, n := range f.serving() {
		pid := n.child.PID()
		r.nodes[n] = nodeReading{used: proc.ProcessorTime(pid), bytes: proc.ResidentBytes(pid)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, reading := range r.nodes {
		reading.sessions = n.conns
		r.nodes[n] = reading
	}
	return r
}

// cores is the number of processors kept busy between two readings.
func cores(from, to, passed time.Duration) float64 {
	if passed <= 0 {
		return 0
	}
	return max(0, (to-from).Seconds()/passed.Seconds())
}
