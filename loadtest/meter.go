package main

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/proc"
)

// meter sees what the processes use while the load is even: all connections are
// open, and nobody is closed.
type meter struct {
	mu      sync.Mutex
	servers []int                 // process numbers
	used    map[int]time.Duration // of each, when it was read last
	past    time.Duration         // of those that have ended

	idle                 map[int]int64 // what each had before there were connections
	idleRSS, selfIdleRSS int64         // the same, of those that are there at the end
	rss, selfRSS         int64

	from, to reading
}

// reading is how much processor time was used until a moment.
type reading struct {
	at                  time.Time
	servers, self, busy time.Duration
}

// newMeter is called before this process has anything for its connections.
func newMeter() *meter {
	return &meter{selfIdleRSS: proc.ResidentBytes(os.Getpid()), used: map[int]time.Duration{}, idle: map[int]int64{}}
}

// watch adds servers before their first connection.
func (m *meter) watch(servers []int) {
	for _, pid := range servers {
		m.Join(pid)
		m.idle[pid] = proc.ResidentBytes(pid)
	}
}

// Join adds a server later.
func (m *meter) Join(server int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers = append(m.servers, server)
}

// Leave removes a server after its end. Its usage counts until the last reading.
func (m *meter) Leave(server int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers = slices.DeleteFunc(m.servers, func(pid int) bool { return pid == server })
	m.past += m.used[server]
	delete(m.used, server)
}

func (m *meter) begin() { m.from = m.read() }

func (m *meter) end() {
	m.to = m.read()
	m.selfRSS = proc.ResidentBytes(os.Getpid())
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pid := range m.servers {
		if now := proc.ResidentBytes(pid); now > 0 { // or it has ended by itself
			m.rss, m.idleRSS = m.rss+now, m.idleRSS+m.idle[pid]
		}
	}
}

func (m *meter) resident() (servers, self int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pid := range m.servers {
		servers += proc.ResidentBytes(pid)
	}
	return servers, proc.ResidentBytes(os.Getpid())
}

func (m *meter) read() reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := reading{at: time.Now(), servers: m.past, self: proc.ProcessorTime(os.Getpid()), busy: proc.BusyTime()}
	for _, pid := range m.servers {
		m.used[pid] = max(m.used[pid], proc.ProcessorTime(pid))
		r.servers += m.used[pid]
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
