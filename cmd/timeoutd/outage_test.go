//go:build interop && unix

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// etcd is away for longer than the TTL of its members, and for a minute in the long form. The
// nodes go on with the last view, so tasks run on time and once. Then all are members again.
func TestEtcdIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct {
		begin, end func(etcd *testserver.Server, t testing.TB)
	}{
		"killed":  {(*testserver.Server).Kill, (*testserver.Server).Restart},
		"stopped": {(*testserver.Server).Pause, (*testserver.Server).Continue},
	} {
		t.Run(name, func(t *testing.T) {
			etcd, redis := newEtcd(t), newRedis(t).URL
			t.Parallel()
			away := 10 * time.Second // with a ttl of 6 s
			if isLong() {
				away = time.Minute
			}
			testAway(t, away, process{args: []string{"-ttl", "6s"}, env: []string{"REDIS_URL=" + redis, "ETCD_ENDPOINTS=" + etcd.Addr}},
				func() { outage.begin(etcd, t) }, func() { outage.end(etcd, t) })
		})
	}
}

func testAway(t *testing.T, away time.Duration, with process, begin, end func()) {
	w, s := newWitness(t, nil), newSetter(t)
	nodes := []*process{start(t, w.employ(with, "a")), start(t, w.employ(with, "b"))}
	nodes[0].serveTopic(t, w, `"lease":"10s",`)
	members := func() int {
		least := len(nodes)
		for _, p := range nodes {
			stats, topic := p.stats(t)
			if topic.Here == nil || len(topic.Here.Slots) != 8/len(nodes) {
				return 0
			}
			least = min(least, len(stats.Members.Nodes))
		}
		return least
	}
	require.Eventually(t, func() bool { return members() == 2 }, eternal, 50*time.Millisecond)
	n := 0
	load := func(until time.Time) {
		for ; time.Now().Before(until); n++ {
			after := make(map[string]time.Duration)
			for i := range 5 {
				after[fmt.Sprint("task-", n, "-", i)] = time.Duration(i*37) * time.Millisecond
			}
			require.True(t, s.set(nodes[n%2].addr(t), after))
			time.Sleep(60 * time.Millisecond)
		}
	}
	load(time.Now().Add(time.Second))
	begin()
	load(time.Now().Add(away))
	set := s.all()
	require.Eventually(t, func() bool { return len(w.missing(set)) == 0 }, eternal, 100*time.Millisecond, "while etcd is away")
	require.Equal(t, 2, members(), "the last view is used")
	end()
	back := time.Now()
	require.Eventually(t, func() bool {
		load(time.Now().Add(50 * time.Millisecond))
		return members() == 2 && time.Since(back) > 7*time.Second
	}, 2*eternal, time.Millisecond, "both are members again, and were for a while")
	nodes[0].rests(t)
	require.Empty(t, w.missing(s.all()))
	require.Empty(t, w.mistakes())
	by := map[string]int{}
	for set, all := range w.seen() {
		require.Len(t, all, 1, "%v", set)
		by[all[0].node]++
	}
	require.Greater(t, min(by["a"], by["b"]), len(s.all())/5, "both have their share")
	t.Logf("away for %v: %d tasks, each called for once, by node %v", away, len(s.all()), by)
}
