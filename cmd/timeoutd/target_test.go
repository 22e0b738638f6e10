package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// target is the target of tasks. It counts their calls by the id in the payload.
type target struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int
}

func newTarget(t *testing.T) *target {
	to := &target{calls: make(map[string]int)}
	to.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var id string
		if json.NewDecoder(r.Body).Decode(&id) == nil {
			to.mu.Lock()
			to.calls[id]++
			to.mu.Unlock()
		}
		time.Sleep(2 * time.Millisecond) // so that some calls are under way at any time
	}))
	t.Cleanup(to.Close)
	return to
}

// called returns how many tasks have called, and how many calls there were.
func (to *target) called() (tasks, calls int) {
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, n := range to.calls {
		calls += n
	}
	return len(to.calls), calls
}

// callsOf returns how often a task has called.
func (to *target) callsOf(id string) int {
	to.mu.Lock()
	defer to.mu.Unlock()
	return to.calls[id]
}

// setMany sets n tasks in a batch. They are due within a second.
func (p *process) setMany(t *testing.T, n int, header ...string) {
	t.Helper()
	var batch struct {
		Tasks []wire.KeyedSetting `json:"tasks"`
	}
	for i := range n {
		var one wire.KeyedSetting
		one.Topic, one.ID = "t", fmt.Sprint("task-", i)
		after := wire.Duration(time.Duration(i) * time.Second / time.Duration(n))
		one.After, one.Payload = &after, []byte(fmt.Sprintf("%q", one.ID))
		batch.Tasks = append(batch.Tasks, one)
	}
	body, err := json.Marshal(batch)
	require.NoError(t, err)
	status, answer := p.ask(t, http.MethodPost, "/v1/tasks/set", string(body), header...)
	require.Equal(t, http.StatusOK, status, answer)
}

// setTopic makes the tasks of topic t call a target.
func (p *process) setTopic(t *testing.T, to *target) {
	t.Helper()
	status, answer := p.ask(t, http.MethodPut, "/v1/topics/t", `{"lease":"3s","callback":{"kind":"http","target":"`+to.URL+`"}}`)
	require.Equal(t, http.StatusOK, status, answer)
}

// stats returns all figures, and the figures of topic t.
func (p *process) stats(t *testing.T) (wire.Stats, wire.TopicStats) {
	t.Helper()
	status, answer := p.ask(t, http.MethodGet, "/v1/stats", "")
	require.Equal(t, http.StatusOK, status)
	var stats wire.Stats
	require.NoError(t, json.Unmarshal([]byte(answer), &stats))
	for _, topic := range stats.Topics {
		if topic.Name == "t" {
			return stats, topic
		}
	}
	return stats, wire.TopicStats{}
}
