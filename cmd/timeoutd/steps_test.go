//go:build interop && unix

package main

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func TestAProcessIsKilledBetweenTwoStepsWithRedis(t *testing.T) {
	redis := newRedis(t)
	t.Parallel()
	testSteps(t, "REDIS_URL="+redis.URL)

	// Only Redis is a single process: while it is stopped, it has got a command and not run it
	// yet.
	t.Run("it has said what it has done, and has no answer", func(t *testing.T) {
		// A node says nothing of a task while it waits for an answer about others. With this rate it
		// asks for no others.
		s := newSteps(t, "REDIS_URL="+redis.URL, `"rate":0.01,`)
		s.begin(t, "first")
		redis.Pause(t)
		s.release()
		time.Sleep(2 * time.Second)
		require.NoError(t, s.victim.cmd.Process.Kill())
		require.Error(t, s.victim.wait())
		redis.Continue(t)
		s.end(t, []string{"victim"}, nil)
	})
}

func TestAProcessIsKilledBetweenTwoStepsWithPostgres(t *testing.T) {
	server := testserver.Database(t)
	t.Parallel()
	testSteps(t, "DATABASE_URL="+server)
}

func testSteps(t *testing.T, env string) {
	t.Run("it has leased one, and another is being called", func(t *testing.T) {
		s := newSteps(t, env, "")
		s.begin(t, "first", "second")
		require.NoError(t, s.victim.cmd.Process.Kill())
		require.Error(t, s.victim.wait())
		s.release()
		s.end(t, []string{"victim", "heir"}, []string{"heir"})
	})
	t.Run("it was answered, and has not said so", func(t *testing.T) {
		s := newSteps(t, env, "")
		s.begin(t, "first", "second")
		send(t, s.victim.cmd, syscall.SIGSTOP)
		time.Sleep(50 * time.Millisecond) // a signal takes its time
		s.release()
		require.Eventually(t, func() bool { return !s.calls("first")[0].answered.IsZero() }, eternal, time.Millisecond)
		require.NoError(t, s.victim.cmd.Process.Kill())
		require.Error(t, s.victim.wait())
		s.end(t, []string{"victim", "heir"}, []string{"heir"})
	})
}

// steps is a process with one task in a call and another one leased, about to be killed.
type steps struct {
	*witness
	with    process
	release func()
	victim  *process
}

// newSteps starts the process. more is JSON for its topic.
func newSteps(t *testing.T, env, more string) *steps {
	hold := make(chan struct{})
	s := &steps{release: sync.OnceFunc(func() { close(hold) })}
	s.witness = newWitness(t, func(_, node string) {
		if node == "victim" {
			<-hold
		}
	})
	t.Cleanup(s.release)
	s.with = process{args: []string{"-ttl", "4s"}, env: []string{env}}
	s.victim = start(t, s.employ(s.with, "victim"))
	s.victim.serveTopic(t, s.witness, more+`"lease":"4s","concurrency":1,"slots":1,`)
	return s
}

// begin sets the tasks. The first is being called then, and the second, if any, is leased.
func (s *steps) begin(t *testing.T, ids ...string) {
	for i, id := range ids {
		s.victim.set(t, "t/tasks/"+id, "{}")
		require.Eventually(t, func() bool {
			for _, leased := range ids[:i+1] {
				// The counts of the topic can be of seconds ago.
				status, answer := s.victim.ask(t, http.MethodGet, "/v1/topics/t/tasks/"+leased, "")
				require.Equal(t, http.StatusOK, status)
				var task wire.Task
				require.NoError(t, json.Unmarshal([]byte(answer), &task))
				if task.State != timeout.Running {
					return false
				}
			}
			return len(s.calls("first")) == 1
		}, eternal, 10*time.Millisecond)
	}
	require.Empty(t, s.calls("second"))
}

// end lets another process do the rest, and compares the callers.
func (s *steps) end(t *testing.T, first, second []string) {
	heir := start(t, s.employ(s.with, "heir"))
	heir.rests(t)
	callers := func(id string) (all []string) {
		for _, d := range s.calls(id) {
			all = append(all, d.node)
		}
		return all
	}
	require.Equal(t, first, callers("first"))
	require.Equal(t, second, callers("second"))
	for _, d := range s.calls("second") {
		require.Equal(t, 2, d.attempt, "the first attempt was the victim's")
	}
	require.Empty(t, s.mistakes())
}

// calls returns the calls for a task.
func (s *steps) calls(id string) []delivery {
	for set, all := range s.seen() {
		if set.id == id {
			return all
		}
	}
	return nil
}

func send(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	require.NoError(t, cmd.Process.Signal(s))
}
