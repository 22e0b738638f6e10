package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

func TestPlan(t *testing.T) {
	limit, _ := rlimit.Files()
	for _, c := range []struct {
		name     string
		cfg      config
		procs    int
		ownFiles bool
	}{
		{"small", config{conns: 100}, 1, false},
		{"told to", config{conns: 100, procs: 3}, 3, false},
		{"a server elsewhere", config{conns: 100, addr: "127.0.0.1:9000"}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := newPlan(c.cfg)
			require.NoError(t, err)
			require.Equal(t, c.procs, p.procs)
			require.Equal(t, c.ownFiles, p.ownFiles)
			require.GreaterOrEqual(t, p.workers, max(1, p.procs))
			require.GreaterOrEqual(t, p.limit, limit)
		})
	}
}

// Whatever the limit is, no process and no thread gets more than fits into it.
func TestPlanFitsIntoTheLimit(t *testing.T) {
	for _, conns := range []int{1, 10_000, 18_000, 19_000, 19_937, 20_000, 100_000, 1_000_000} {
		p, err := newPlan(config{conns: conns, probes: 1000})
		require.NoError(t, err)
		require.LessOrEqual(t, divideUp(conns, p.procs)+divideUp(1000, p.procs)+serverSpare(p.limit), p.limit)
		require.LessOrEqual(t, divideUp(conns, p.workers), p.limit-spareFiles)
		if !p.ownFiles {
			require.LessOrEqual(t, conns+1000, p.limit-spareFiles)
		}
		var out strings.Builder
		p.explain(&out)
		require.Equal(t, p.ownFiles || p.procs > 1, out.Len() > 0)
	}
}
