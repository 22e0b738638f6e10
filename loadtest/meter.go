package main

import (
	"os"
	"time"
)

// meter sees what the processes use while the load is even: all connections are
// open, and nobody is closed.
type meter struct {
	servers []int // process numbers

	idleRSS, selfIdleRSS int64 // before there were connections
	rss, selfRSS         int64

	from, to reading
}

// reading is how much processor time was used until a moment.
type reading struct {
	at                  time.Time
	servers, self, busy time.Duration
}

// newMeter is called before this process has anything for its connections.
func newMeter() *meter { return &meter{selfIdleRSS: residentBytes(os.Getpid())} }

// watch says which servers there are, before they have connections.
func (m *meter) watch(servers []int) {
	m.servers = servers
	m.idleRSS, _ = m.resident()
}

func (m *meter) begin() { m.from = m.read() }

func (m *meter) end() {
	m.to = m.read()
	m.rss, m.selfRSS = m.resident()
}

func (m *meter) resident() (servers, self int64) {
	for _, pid := range m.servers {
		servers += residentBytes(pid)
	}
	return servers, residentBytes(os.Getpid())
}

func (m *meter) read() reading {
	r := reading{at: time.Now(), self: processorTime(os.Getpid()), busy: busyTime()}
	for _, pid := range m.servers {
		r.servers += processorTime(pid)
	}
	return r
}

// cores returns how many processors were kept busy by the servers, by this
// process, and by everything else on the machine.
func (m *meter) cores() (servers, self, others float64) { return m.from.cores(m.to) }

// cores is between two readings.
func (r reading) cores(later reading) (servers, self, others float64) {
	passed := later.at.Sub(r.at).Seconds()
	if passed <= 0 {
		return 0, 0, 0
	}
	servers = (later.servers - r.servers).Seconds() / passed
	self = (later.self - r.self).Seconds() / passed
	return servers, self, max(0, (later.busy-r.busy).Seconds()/passed-servers-self)
}
