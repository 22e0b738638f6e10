package adaptertest

import (
	"errors"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func probeTests() []test {
	return []test{
		{name: "probe/pong", of: probing, run: func(r *rig) { answeredProbesKeep(r, keepalive.ActivityManual, "pong") }},
		{name: "probe/read", of: probing, run: func(r *rig) { answeredProbesKeep(r, keepalive.ActivityRead, "echo") }},
		{name: "probe/kernel", of: probing, run: func(r *rig) { answeredProbesKeep(r, keepalive.ActivityKernel, "echo") }},
		{name: "probe/silence", of: probing, run: unansweredProbesEnd},
		{name: "probe/failed", of: probing, run: failedProbeEnds},
	}
}

// probes counts calls of Probe.Send, by their connections.
type probes struct {
	mu   sync.Mutex
	sent map[any]int
}

func (p *probes) send(conn any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == nil {
		p.sent = make(map[any]int)
	}
	p.sent[conn]++
	return nil
}

func (p *probes) count(conn any) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent[conn]
}

// all returns how many probes were sent.
func (p *probes) all() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sent := range p.sent {
		n += sent
	}
	return n
}

// A peer says nothing but its answers to probes.
func answeredProbesKeep(r *rig, activity keepalive.Activity, answer string) {
	const answers = 4
	var p probes
	r.serve(keepalive.Config{Activity: activity, Probe: keepalive.Probing{Send: p.send, After: timeout / 4}})
	r.attempt(func() bool {
		stalls := r.k.Stats().Wheel.Stalls
		c := r.dial()
		before := c.heard()
		for n := range answers {
			for p.count(c.conn) <= n {
				if len(r.endsOf(c.conn)) > 0 && p.count(c.conn) <= n {
					require.GreaterOrEqual(r, c.heard().done.Sub(before.begun), timeout,
						"the connection was closed without a probe, and its last answer was in time")
					return false
				}
				time.Sleep(ms)
			}
			before = c.heard()
			if err := c.ask(answer); err != nil {
				e := c.requireEnd(keepalive.ReasonNoAnswer)
				require.GreaterOrEqual(r, e.at.Sub(c.heard().begun), timeout)
				return false
			}
		}
		info, ok := c.guard.Info()
		if ok && answer == "pong" && r.k.Stats().Wheel.Stalls == stalls { // none is measured across the end of a stop
			require.Positive(r, info.RoundTrip)
		}
		c.requireExpiry(keepalive.ReasonNoAnswer, timeout)
		return true
	})
}

// All probes are sent, and then the connection is closed: not before its timeout.
func unansweredProbesEnd(r *rig) {
	var p probes
	r.serve(keepalive.Config{Probe: keepalive.Probing{Send: p.send, Count: 3}})
	c := r.dial()
	c.requireExpiry(keepalive.ReasonNoAnswer, timeout)
	require.GreaterOrEqual(r, p.count(c.conn), 3)
	require.EqualValues(r, p.all(), r.k.Stats().Probes)
	c.requireBytes("")
}

func failedProbeEnds(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Probe: keepalive.Probing{
		After: timeout, Timeout: eternal / 2,
		Send: func(any) error { return errors.New("on purpose") },
	}})
	c := r.dial()
	e := c.requireExpiry(keepalive.ReasonNoAnswer, timeout/2)
	require.Less(r, e.at.Sub(c.heard().answered), eternal/2)
}
