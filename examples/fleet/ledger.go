package main

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/examples/fleet/internal/gateway"
)

const (
	// kept is how many events the page shows.
	kept = 40

	// crossing is how long the offline of an epoch may be heard after the client's next
	// WELCOME, or before the end of its connection. They come by different ways.
	crossing = 500 * time.Millisecond
)

// ledger keeps the clients' view and the gateways' events for comparison. The events of a
// visitor, with a session by hand, are shown but not judged.
type ledger struct {
	mu       sync.Mutex
	sessions map[string]*record
	events   []happening
}

// record has the known facts of a session.
type record struct {
	node  string // the gateway of its last WELCOME
	epoch int64  // and the epoch
	kind  string // and the kind
	here  bool   // its connection is open

	welcomes map[int64]time.Time // by epoch
	ends     map[int64]time.Time // of its connections, by epoch

	expects  string // the reason of the offline to come, or ""
	offlines map[int64]*ending
}

// ending is the offline of an epoch.
type ending struct {
	reason   string
	times    int
	heard    time.Time // for the first time
	expected bool      // by then, for this reason
}

// happening is an event with its time, for the page.
type happening struct {
	At time.Time `json:"at"`
	gateway.Event
}

func newLedger() *ledger { return &ledger{sessions: make(map[string]*record)} }

// of returns the record of a session. l.mu must be held.
func (l *ledger) of(id string) *record {
	r := l.sessions[id]
	if r == nil {
		r = &record{welcomes: make(map[int64]time.Time), ends: make(map[int64]time.Time), offlines: make(map[int64]*ending)}
		l.sessions[id] = r
	}
	return r
}

// enrol adds the session of one of the demo's clients.
func (l *ledger) enrol(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(id)
}

// welcome notes a client's WELCOME.
func (l *ledger) welcome(id, node string, epoch int64, kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(id)
	r.node, r.epoch, r.kind, r.here = node, epoch, kind, true
	r.welcomes[epoch] = time.Now()
}

// gone notes the end of a client's connection.
func (l *ledger) gone(id string, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(id)
	r.ends[epoch] = time.Now()
	if r.epoch == epoch {
		r.here = false
	}
}

// event notes a gateway's event.
func (l *ledger) event(e gateway.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.events = append(l.events, happening{now, e}); len(l.events) > kept {
		l.events = slices.Delete(l.events, 0, 1)
	}
	r := l.sessions[e.Session]
	if e.Name != "offline" || r == nil { // or a visitor's
		return
	}
	o := r.offlines[e.Epoch]
	if o == nil {
		o = &ending{reason: e.Reason, heard: now, expected: r.expects != "" && e.Reason == r.expects}
		r.offlines[e.Epoch] = o
	}
	o.times++
}

// expect announces an offline for the present epoch of a session.
func (l *ledger) expect(id, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(id).expects = reason
}

// ids returns all sessions, in their order.
func (l *ledger) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.sessions))
}

// latest returns the last events, the newest first.
func (l *ledger) latest() []happening {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := slices.Clone(l.events)
	slices.Reverse(events)
	return events
}

// count returns how many of some sessions meet a condition.
func (l *ledger) count(ids []string, is func(*record) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if is(l.of(id)) {
			n++
		}
	}
	return n
}

// at returns the sessions at a gateway.
func (l *ledger) at(node string) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, r := range l.sessions {
		if r.here && r.node == node {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// late reports whether an offline was told when the client had been back for a while.
func (r *record) late(epoch int64, o *ending) bool {
	for back, at := range r.welcomes {
		if back > epoch && o.heard.Sub(at) > crossing {
			return true
		}
	}
	return false
}

// early reports whether an offline was told while the connection was open for a while yet.
func (r *record) early(epoch int64, o *ending) bool { return r.ends[epoch].Sub(o.heard) > crossing }

// ended reports whether the expected end of a session was told.
func (r *record) ended() bool { return r.expects != "" && r.offlines[r.epoch] != nil }

// heard returns the times of the first and the last end told of some sessions.
func (l *ledger) heard(ids []string) (first, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		r := l.of(id)
		o := r.offlines[r.epoch]
		if o == nil {
			continue
		}
		if first.IsZero() || o.heard.Before(first) {
			first = o.heard
		}
		if o.heard.After(last) {
			last = o.heard
		}
	}
	return first, last
}

// verdict is the result of the demo.
type verdict struct {
	Sessions int `json:"sessions"`
	Expected int `json:"expected"` // offlines
	Seen     int `json:"seen"`     // of these
	Again    int `json:"again"`    // of these, once more: it is at least once
	Older    int `json:"older"`    // offlines of sessions back only after it, with a higher epoch
	Wrong    int `json:"wrong"`    // offlines of sessions here then, back or drained, or for another reason
	Lost     int `json:"lost"`     // expected, but not told
	Absent   int `json:"absent"`   // sessions missing without an expected end
}

func (v verdict) pass() bool { return v.Wrong+v.Lost+v.Absent == 0 && v.Seen == v.Expected }

// judge compares the told ends with the real ones.
func (l *ledger) judge() (v verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.Sessions = len(l.sessions)
	for _, r := range l.sessions {
		v.add(r)
	}
	return v
}

func (v *verdict) add(r *record) {
	switch {
	case r.expects == "" && !r.here:
		v.Absent++
	case r.expects != "":
		v.Expected++
		if r.offlines[r.epoch] == nil {
			v.Lost++
		}
	}
	for epoch, o := range r.offlines {
		switch {
		case epoch == r.epoch && o.expected:
			v.Seen++
			v.Again += o.times - 1
		case epoch < r.epoch && o.reason != "detached" && !r.early(epoch, o) && !r.late(epoch, o):
			v.Older++
		default:
			v.Wrong++
		}
	}
}
