package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func TestHop(t *testing.T) {
	for _, c := range []struct {
		name string
		p    rules.Policy
		own  time.Duration
		draw float64
		want time.Duration
	}{
		{"a timeout", rules.Policy{Timeout: 16 * tick}, 0, 0, 16 * tick},
		{"a minute at most", rules.Policy{Timeout: time.Hour}, 0, 0, time.Minute},
		{"for ever", rules.Policy{Timeout: forever}, 0, 0, time.Minute},
		{"its own", rules.Policy{Timeout: time.Hour}, 5 * tick, 0, 5 * tick},
		{"a tick at least", rules.Policy{Timeout: 4 * tick, Pressed: tick / 2}, 0, 0, tick},
		{"a probe", rules.Policy{Timeout: 16 * tick, ProbeAfter: 8 * tick, ProbeCount: 1}, 0, 0, 8 * tick},
		{"an early probe", rules.Policy{Timeout: 16 * tick, ProbeAfter: 8 * tick, ProbeCount: 1}, 0, 1, 6 * tick},
		{"a stretched probe", rules.Policy{Timeout: 16 * tick, ProbeAfter: 8 * tick, ProbeCount: 1}, 32 * tick, 1, 12 * tick},
		{"pressure", rules.Policy{Timeout: 16 * tick, Pressed: 4 * tick}, 0, 0, 4 * tick},
		{"pressure, its own", rules.Policy{Timeout: 16 * tick, Pressed: 4 * tick}, 4 * tick, 0, tick},
		{"longest, stretched", rules.Policy{Timeout: 2 * tick, ProbeAfter: tick, ProbeCount: 1}, forever, 1, time.Minute},
		{"all of it", rules.Policy{Timeout: 16 * tick, ProbeAfter: 8 * tick, ProbeCount: 1, Pressed: 5 * tick}, 0, 0, 5 * tick},
	} {
		c.p.Tick = tick
		require.Equal(t, c.want, c.p.Hop(rules.State{Own: c.own}, c.draw), c.name)
	}
}
