package main

import "time"

// usage is what the processes of a fleet have used until three moments.
type usage struct {
	before, steady, after fleetReading // when the steady phase begins, when it ends, and what came then
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
	sessions int // connections that clients have to it
}

// measure reads what is used now.
func (f *fleet) measure() fleetReading {
	r := fleetReading{at: time.Now(), nodes: map[*node]nodeReading{}}
	if f.redis != nil {
		r.redis, r.redisBytes = processorTime(f.redis.PID()), residentBytes(f.redis.PID())
	}
	for _, n := range f.serving() {
		pid := n.child.cmd.Process.Pid
		r.nodes[n] = nodeReading{used: processorTime(pid), bytes: residentBytes(pid)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, reading := range r.nodes {
		reading.sessions = n.conns
		r.nodes[n] = reading
	}
	return r
}

// cores is how much of a processor was used between two readings.
func cores(from, to, passed time.Duration) float64 {
	if passed <= 0 {
		return 0
	}
	return max(0, (to-from).Seconds()/passed.Seconds())
}
