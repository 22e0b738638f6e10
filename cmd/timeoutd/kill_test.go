package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
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
	t.Parallel() // it waits for the ends of leases
	to := newTarget(t)
	with := process{args: append([]string{"-sqlite", filepath.Join(t.TempDir(), "tasks.db"), "-callback-allow", "127.0.0.0/8", "-ttl", "3s"}, more...)}
	p := start(t, with)
	p.logged(t, `msg="tasks are kept in `+kept+`"`)
	p.setTopic(t, to)
	p.set(t, "t/tasks/far", `{"after":"1h","payload":[1,2]}`)
	const n = 500
	p.setMany(t, n)
	settled := make(map[string]int) // their calls when they were settled
	for range 4 {
		time.Sleep(250 * time.Millisecond)
		require.NoError(t, p.cmd.Process.Kill())
		require.Error(t, p.wait())
		p = start(t, with)
		p.noteSettled(t, to, n, settled)
	}
	require.Eventually(t, func() bool { tasks, _ := to.called(); return tasks == n }, eternal, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		_, topic := p.stats(t)
		return topic.Counts != nil && topic.Counts.Pending == 1 && topic.Counts.Running == 0 && topic.Counts.Dead == 0
	}, eternal, 20*time.Millisecond)
	status, body := p.ask(t, http.MethodGet, "/v1/topics/t/tasks/far", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"payload":[1,2]`)
	_, topic := p.stats(t)
	require.Zero(t, topic.Here.Early)
	require.NotEmpty(t, settled)
	for id, calls := range settled {
		require.Equal(t, calls, to.callsOf(id), "only what was not settled when it was killed runs again, and not %s", id)
	}
}

// noteSettled notes the calls of those of setMany's n tasks that are gone.
func (p *process) noteSettled(t *testing.T, to *target, n int, calls map[string]int) {
	t.Helper()
	keys := make([]engine.Key, n)
	for i := range keys {
		keys[i] = engine.Key{Topic: "t", ID: fmt.Sprint("task-", i)}
	}
	tasks, err := newClient(t, p, "").GetAll(t.Context(), keys)
	require.NoError(t, err)
	for i, task := range tasks {
		if _, noted := calls[keys[i].ID]; !noted && task.State == engine.None {
			calls[keys[i].ID] = to.callsOf(keys[i].ID)
		}
	}
}
