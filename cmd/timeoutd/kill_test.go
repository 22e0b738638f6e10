package main

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After a kill at any moment the next process has all tasks, and runs the interrupted ones
// again.
func TestKilledWithSQLite(t *testing.T) {
	killOver(t, `SQLite at /.*tasks\.db`)
}

// What is in memory is lost with a process, and no task is.
func TestKilledWithAQueueInMemoryInFrontOfSQLite(t *testing.T) {
	killOver(t, `SQLite at /.*tasks\.db, with a queue in memory in front of it`, "-index")
}

func killOver(t *testing.T, kept string, more ...string) {
	to := newTarget(t)
	with := process{args: append([]string{"-sqlite", filepath.Join(t.TempDir(), "tasks.db"), "-callback-allow", "127.0.0.0/8", "-ttl", "3s"}, more...)}
	p := start(t, with)
	p.logged(t, `msg="tasks are kept in `+kept+`"`)
	p.setTopic(t, to)
	p.set(t, "t/tasks/far", `{"after":"1h","payload":[1,2]}`)
	const n = 500
	p.setMany(t, n)
	kills := 0
	for ; kills < 4; kills++ {
		time.Sleep(250 * time.Millisecond)
		require.NoError(t, p.cmd.Process.Kill())
		require.Error(t, p.wait())
		p = start(t, with)
	}
	require.Eventually(t, func() bool { tasks, _ := to.called(); return tasks == n }, eternal, 20*time.Millisecond)
	_, calls := to.called()
	require.LessOrEqual(t, calls, n+kills*64, "only what ran when it was killed runs again")
	require.Eventually(t, func() bool {
		_, topic := p.stats(t)
		return topic.Counts != nil && topic.Counts.Pending == 1 && topic.Counts.Running == 0 && topic.Counts.Dead == 0
	}, eternal, 20*time.Millisecond)
	status, body := p.ask(t, http.MethodGet, "/v1/topics/t/tasks/far", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"payload":[1,2]`)
	_, topic := p.stats(t)
	require.Zero(t, topic.Here.Early)
}
