package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

// Waiting pulls are no reason to go down slowly. Each gets an answer, and the process loses none of
// what they would have got.
func TestWaitingPullsEndAtOnceWhenTheServerGoesDown(t *testing.T) {
	t.Parallel()
	with := process{args: []string{"-sqlite", filepath.Join(t.TempDir(), "tasks.db"), "-ttl", "3s"}}
	p := start(t, with)
	p.putTopic(t, "t", `{"pull":true}`)
	p.set(t, "t/tasks/1", `{"after":"1h"}`)
	var answers sync.WaitGroup
	conns := make([]net.Conn, 20)
	for i := range conns {
		conn, err := net.Dial("tcp", p.addr(t))
		require.NoError(t, err)
		defer conn.Close()
		conns[i] = conn
		const body = `{"wait":"20s"}`
		fmt.Fprintf(conn, "POST /v1/topics/t/pull HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	p.eventually(t, "/v1/stats", `"waiting":20`)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	for _, conn := range conns {
		answers.Go(func() {
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "goes down") {
				t.Errorf("%s: %s", res.Status, text)
			}
		})
	}
	answers.Wait()
	require.NoError(t, p.wait())
	require.NotContains(t, p.log.String(), "request failed")
	p = start(t, with)
	status, text := p.ask(t, http.MethodGet, "/v1/topics/t/tasks/1", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"state":"pending"`)
}

func (p *process) putTopic(t *testing.T, name, body string) {
	t.Helper()
	status, answer := p.ask(t, http.MethodPut, "/v1/topics/"+name, body)
	require.Equal(t, http.StatusOK, status, answer)
}

// eventually waits for a text in an answer.
func (p *process) eventually(t *testing.T, path, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, answer := p.ask(t, http.MethodGet, path, "")
		return strings.Contains(answer, text)
	}, eternal, 10*time.Millisecond)
}

// A work token is all of a worker's authority: for one topic, and for pulling.
func TestTheClientPullsWithAWorkToken(t *testing.T) {
	t.Parallel()
	const admin, work = "admin-0123456789abcdef", "work-0123456789ab=cdef"
	p := start(t, process{args: []string{"-memory"}, env: []string{"TIMEOUTD_ADMIN_TOKEN=" + admin, "TIMEOUTD_WORK_TOKEN=mail=" + work + " jobs=" + work}})
	ctx, boss, worker := t.Context(), newClient(t, p, admin), newClient(t, p, work)
	for _, topic := range []string{"jobs", "others"} {
		kept, err := boss.SetTopic(ctx, engine.Topic{Name: topic, Pull: true, Retain: time.Hour, Retries: -1})
		require.NoError(t, err)
		require.True(t, kept.Pull)
		_, err = boss.Set(ctx, engine.Task{Topic: topic, ID: "1", Payload: []byte("payload")})
		require.NoError(t, err)
	}
	status := func(err error) int {
		var told *timeoutclient.Error
		require.ErrorAs(t, err, &told)
		return told.Status
	}
	_, err := worker.Pull(ctx, timeoutclient.Pull{Topic: "others"})
	require.Equal(t, http.StatusForbidden, status(err))
	_, err = worker.Get(ctx, engine.Key{Topic: "jobs", ID: "1"})
	require.Equal(t, http.StatusForbidden, status(err))
	_, err = worker.Pull(ctx, timeoutclient.Pull{Topic: "mail"})
	require.ErrorIs(t, err, engine.ErrNotFound)
	_, err = boss.SetTopic(ctx, engine.Topic{Name: "called"})
	require.NoError(t, err)
	_, err = boss.Pull(ctx, timeoutclient.Pull{Topic: "called"})
	require.ErrorIs(t, err, engine.ErrConflict)
	_, err = boss.Pull(ctx, timeoutclient.Pull{Topic: "jobs", Max: 101})
	require.ErrorIs(t, err, engine.ErrArgument)

	leased, err := worker.Pull(ctx, timeoutclient.Pull{Topic: "jobs", Max: 100, Wait: timeoutclient.MaxWait, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, leased, 1)
	require.Equal(t, "payload", string(leased[0].Payload))
	require.Equal(t, time.Minute, leased[0].Lease)
	left, err := worker.Extend(ctx, leased[0].Token, 2*time.Hour)
	require.NoError(t, err)
	require.True(t, 59*time.Minute < left && left <= time.Hour, "the timeout of the topic: %v", left)
	foreign, err := boss.Pull(ctx, timeoutclient.Pull{Topic: "others", Wait: timeoutclient.MaxWait})
	require.NoError(t, err)
	_, err = worker.Feedback(ctx, foreign[0].Token, timeoutclient.Outcome{})
	require.Equal(t, http.StatusForbidden, status(err))
	_, err = worker.Extend(ctx, foreign[0].Token, 0)
	require.Equal(t, http.StatusForbidden, status(err))

	answer, err := boss.Remove(ctx, engine.Key{Topic: "jobs", ID: "1"})
	require.NoError(t, err)
	require.Equal(t, engine.Running, answer.Was)
	left, err = worker.Extend(ctx, leased[0].Token, 0)
	require.NoError(t, err)
	require.Zero(t, left, "it was removed")
	settled, err := worker.Feedback(ctx, leased[0].Token, timeoutclient.Outcome{})
	require.NoError(t, err)
	require.False(t, settled)

	status2, text := p.ask(t, http.MethodGet, "/metrics", "", "Authorization", "Bearer "+admin)
	require.Equal(t, http.StatusOK, status2)
	require.Contains(t, text, `heartwheel_timeout_pulled_total{topic="jobs"} 1`)
}
