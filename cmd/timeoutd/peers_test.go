//go:build interop && unix

package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// Three processes share a server, and each has run a part of the tasks. The page of one has the sums of
// all. When another one is stopped, it is named, and the answer comes in time all the same.
func TestTheSumsOfThreeProcessesOfWhichOneIsStopped(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	const reader, master = "reader-0123456789", "master-0123456789"
	with := process{
		args: []string{"-callback-allow", "127.0.0.0/8", "-ttl", "15s"}, // it stays a member while it is stopped
		env:  []string{"REDIS_URL=" + newRedis(t).URL, "TIMEOUTD_READ_TOKEN=" + reader, "TIMEOUTD_ADMIN_TOKEN=" + master},
	}
	named := func(name string, more ...string) *process {
		p := with
		p.args = append(append([]string{"-node", name}, with.args...), more...)
		return start(t, p)
	}
	b, c := named("b"), named("c")
	a := named("a", "-peers", "http://"+b.addr(t)+" http://"+strings.Replace(c.addr(t), "127.0.0.1", "localhost", 1))
	statsOf := func(p *process) (wire.Stats, wire.TopicStats) {
		status, answer := p.ask(t, http.MethodGet, "/v1/stats", "", "Authorization", "Bearer "+reader)
		require.Equal(t, http.StatusOK, status, answer)
		var all wire.Stats
		require.NoError(t, json.Unmarshal([]byte(answer), &all))
		for _, topic := range all.Topics {
			if topic.Name == "t" && topic.All != nil && topic.Here != nil {
				return all, topic
			}
		}
		return all, wire.TopicStats{All: &wire.Here{}, Here: &wire.Here{}}
	}
	stats := func() (wire.Stats, wire.TopicStats) { return statsOf(a) }
	status, answer := a.ask(t, http.MethodPut, "/v1/topics/t", `{"callback":{"kind":"http","target":"`+to.URL+`"}}`, "Authorization", "Bearer "+master)
	require.Equal(t, http.StatusOK, status, answer)
	require.Eventually(t, func() bool {
		all, topic := stats()
		_, inC := statsOf(c) // the one that is stopped must have something to do
		return len(all.Members.Nodes) == 3 && len(topic.All.Slots) == 8 && len(topic.Here.Slots) < 8 && len(inC.Here.Slots) > 0
	}, eternal, 50*time.Millisecond)
	const n = 300
	a.setMany(t, n, "Authorization", "Bearer "+master)
	all, topic := stats()
	require.Eventually(t, func() bool { all, topic = stats(); return topic.All.Done == n }, eternal, 50*time.Millisecond)
	require.Empty(t, all.Sums.Missing)
	require.Equal(t, []string{"a", "b", "c"}, []string{all.Sums.Nodes[0].Node, all.Sums.Nodes[1].Node, all.Sums.Nodes[2].Node})
	require.Less(t, topic.Here.Done, uint64(n))
	require.EqualValues(t, n, topic.All.Late.Count)
	require.Zero(t, topic.All.Early)

	send(t, c.cmd, syscall.SIGSTOP)
	defer send(t, c.cmd, syscall.SIGCONT)
	require.Eventually(t, func() bool { // on a busy machine b can miss an answer, too
		all, topic = stats()
		return slices.Equal(all.Sums.Missing, []string{"c"})
	}, eternal, 50*time.Millisecond)
	require.Contains(t, strings.Join(all.Sums.Errors, " "), "no answer in time")
	require.Positive(t, topic.All.Done)
	require.Less(t, topic.All.Done, uint64(n))
	require.Empty(t, all.Error, "the rest is there")

	send(t, c.cmd, syscall.SIGCONT)
	require.Eventually(t, func() bool { all, topic = stats(); return len(all.Sums.Missing) == 0 && topic.All.Done == n }, eternal, 50*time.Millisecond)
}
