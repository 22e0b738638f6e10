//go:build interop && unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func TestAnOwnerThatIsStoppedForLongerThanItsLeaseWithRedis(t *testing.T) {
	server := newRedis(t).URL
	t.Parallel()
	testStopped(t, "REDIS_URL="+server)
}

func TestAnOwnerThatIsStoppedForLongerThanItsLeaseWithPostgres(t *testing.T) {
	server := testserver.Database(t)
	t.Parallel()
	testStopped(t, "DATABASE_URL="+server)
}

// A process is stopped (SIGSTOP) with leased tasks. Some of them are being called, and it
// finds the answers when it goes on. Meanwhile another process has done the tasks or is doing
// them, or they were set anew. So the reports of the first process have no effect.
func testStopped(t *testing.T, env ...string) {
	const lease = 5 * time.Second // a busy machine keeps it
	var stopped atomic.Bool       // the target answers the zombie's calls only while the zombie is stopped
	release := make(chan struct{})
	w := newWitness(t, func(id, node string) {
		switch {
		case node == "zombie":
			for !stopped.Load() {
				time.Sleep(time.Millisecond)
			}
		case strings.HasSuffix(id, "slow"):
			<-release // the heir waits for this answer when the zombie goes on
		}
	})
	letGo := sync.OnceFunc(func() { stopped.Store(true); close(release) })
	t.Cleanup(letGo)
	with := process{args: []string{"-ttl", "5s"}, env: env}
	zombie := start(t, w.employ(with, "zombie"))
	zombie.serveTopic(t, w, `"lease":"`+lease.String()+`","concurrency":30,`)
	ids := func(names ...string) (all []string) {
		for _, name := range names {
			for i := range 20 {
				all = append(all, fmt.Sprintf("%02d-%s", i, name)) // engines go by the id if all else is equal
			}
		}
		return all
	}
	s := newSetter(t)
	set := func(p *process, after time.Duration, ids []string) {
		times := make(map[string]time.Duration)
		for _, id := range ids {
			times[id] = after
		}
		require.True(t, s.set(p.addr(t), times))
	}
	all := ids("done", "slow", "anew")
	set(zombie, 0, all)
	var leased int64
	require.Eventually(t, func() bool {
		leased = 0
		for _, id := range all { // the counts of the topic can be of seconds ago
			if zombie.task(t, id).State == timeout.Running {
				leased++
			}
		}
		return leased > 30 && len(w.seen()) == 30
	}, eternal, 20*time.Millisecond, "it is at some, and has leased more")
	before := s.all()

	require.NoError(t, zombie.cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(50 * time.Millisecond) // a signal takes its time
	stopped.Store(true)
	heir := start(t, w.employ(with, "heir"))
	set(heir, 0, ids("meanwhile"))
	by := func(node string) (n int) {
		for _, all := range w.seen() {
			for _, d := range all {
				if d.node == node {
					n++
				}
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return by("heir") == 80 }, eternal, 20*time.Millisecond, "the heir has all")
	require.Eventually(t, func() bool {
		_, topic := heir.stats(t)
		return topic.Counts.Running == 20
	}, eternal, 20*time.Millisecond, "and has done what is not slow")
	set(heir, time.Hour, ids("anew"))
	calls := w.seen()
	for _, set := range before {
		require.Equal(t, "heir", calls[set][len(calls[set])-1].node, "%v", set)
	}

	require.NoError(t, zombie.cmd.Process.Signal(syscall.SIGCONT))
	// The zombie has noticed: it has lost its tasks, and is a member again.
	require.Eventually(t, func() bool {
		stats, topic := zombie.stats(t)
		return len(stats.Members.Nodes) == 2 && topic.Here.Lost > 0
	}, eternal, 20*time.Millisecond)
	set(zombie, 0, ids("later"))
	require.Eventually(t, func() bool { return len(w.missing(s.all())) == 20 }, eternal, 20*time.Millisecond, "all but what waits for an hour")
	require.Eventually(t, func() bool { // figures may be a moment old
		_, topic := heir.stats(t)
		return topic.Counts.Pending == 20 && topic.Counts.Running == 20
	}, eternal, 20*time.Millisecond, "what was set anew waits, and what the heir is at is the heir's")
	for _, id := range ids("slow") {
		require.Equal(t, "heir", heir.task(t, id).Node)
	}
	letGo()
	require.Eventually(t, func() bool {
		_, topic := heir.stats(t)
		return topic.Counts.Running == 0 && topic.Counts.Pending == 20
	}, eternal, 20*time.Millisecond)

	require.Empty(t, w.mistakes())
	repeats := 0
	for set, all := range w.seen() {
		repeats += len(all) - 1
		if len(all) > 1 { // a late call of the zombie comes after the heir's
			slices.SortFunc(all, func(a, b delivery) int { return a.attempt - b.attempt })
			require.Len(t, all, 2, "%v", set)
			require.Equal(t, []string{"zombie", "heir"}, []string{all[0].node, all[1].node}, "%v", set)
			require.Equal(t, []int{1, 2}, []int{all[0].attempt, all[1].attempt}, "%v", set)
		}
	}
	require.Equal(t, by("zombie")-len(ids("later"))+calledByHeir(w, "later"), repeats, "what was called for when it was stopped")
	t.Logf("%d repeats, of %d that were leased", repeats, leased)
}

// calledByHeir counts the tasks of a name with a first call by the heir.
func calledByHeir(w *witness, name string) (n int) {
	for set, all := range w.seen() {
		if strings.HasSuffix(set.id, name) && all[0].node == "heir" {
			n++
		}
	}
	return n
}

// task returns a task of topic t.
func (p *process) task(t *testing.T, id string) (task wire.Task) {
	t.Helper()
	status, body := p.ask(t, http.MethodGet, "/v1/topics/t/tasks/"+id, "")
	require.Equal(t, http.StatusOK, status, body)
	require.NoError(t, json.Unmarshal([]byte(body), &task))
	return task
}
