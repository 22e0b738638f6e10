package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// changing is a fleet whose nodes are started anew with other leases, one after the other: sessions' own,
// those of nodes, and others of nodes.
func changing(t *testing.T, outlive bool) (f *fleetOf, sessions []*Session) {
	longer := beatConfig
	longer.Lease, longer.NodeLease = time.Hour, time.Minute
	f = &fleetOf{shared: newShared(nodeConfig)}
	for i, cfg := range []Config{nodeConfig, beatConfig, longer} {
		cfg = f.diary.config(cfg)
		cfg.Outlive = outlive
		for j := range 2 {
			f.add(t, fmt.Sprint("node-", i, "-", j), cfg)
		}
	}
	return f, f.fillAll(t, 120)
}

func TestNodesMayHaveOtherLeasesWhileTheseAreChanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, sessions := changing(t, false)
		long(10 * time.Minute)
		require.Empty(t, f.diary.offlines())
		allAlive(t, sessions)
		for i, within := range []time.Duration{91 * time.Second, 16 * time.Second, 61 * time.Second} {
			f.set(func() { f.fakes[2*i].cut = true })
			cut := time.Now()
			time.Sleep(within)
			require.Len(t, f.diary.offlines(), 20*(i+1), f.nodes[2*i].cfg.Node)
			seen := f.diary.offlines()[20*i].LastSeen
			require.InDelta(t, cut.Sub(f.began).Seconds(), seen.Sub(time.UnixMilli(1_800_000_000_000)).Seconds(), 31)
		}
		long(20 * time.Minute)
		require.Len(t, f.diary.offlines(), 60)
	})
}

// A node that renews seldom, and is the first to look, would find nothing wrong.
func TestAnOutageHasNobodyOfflineWhileLeasesAreChanged(t *testing.T) {
	for _, away := range []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, _ := changing(t, true)
				time.Sleep(2 * time.Minute)
				f.set(func() { f.away = true })
				time.Sleep(away)
				f.set(func() { f.away = false })
				time.Sleep(3 * time.Minute)
				require.Empty(t, f.diary.offlines())
			})
		})
	}
}

// A slot goes by the shortest renewals of two days. Even a node with much longer ones must look so often;
// otherwise each of its looks finds a gap.
func TestSessionsEndWhileMuchShorterLeasesAreNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shorter := nodeConfig
		shorter.Lease = time.Second
		f := &fleetOf{shared: newShared(shorter)}
		old := f.add(t, "old", f.diary.config(shorter))
		register(t, old, "a")
		time.Sleep(time.Minute)
		require.NoError(t, old.Close())
		f.add(t, "looks", f.diary.config(nodeConfig))
		sessions := fill(t, f.add(t, "dies", nodeConfig), "s", 2) // it has no OnOffline, and does not look
		time.Sleep(5 * time.Minute)
		allAlive(t, sessions)
		told := len(f.diary.offlines())
		f.set(func() { f.fakes[2].cut = true })
		time.Sleep(2 * time.Minute)
		require.Len(t, f.diary.offlines(), told+2)
	})
}

func TestNodesWithOtherLeasesOnOneServer(t *testing.T) {
	t.Parallel()
	server := testserver.SharedRedis(t)
	shorter := newReal(t, server, 1, func(c *Config) { *c = beating(*c) })
	r := newReal(t, server, 1, func(c *Config) {
		*c = beating(*c)
		c.Prefix, c.Node, c.NodeLease = shorter.prefix, "other", 5*quickNodeLease
	})
	sessions := append(fill(t, shorter.nodes[0], "a", 50), fill(t, r.nodes[0], "b", 50)...)
	time.Sleep(2*quickNodeLease + time.Second) // more than the beat of one, and twice the lease of the other
	allAlive(t, sessions)
	require.Empty(t, append(shorter.diary.offlines(), r.diary.offlines()...))
}
