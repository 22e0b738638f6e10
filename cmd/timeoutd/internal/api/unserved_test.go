package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func TestATopicThatNobodyRunsIsInTheStatsAndTheMetrics(t *testing.T) {
	calls, err := httpcall.New(httpcall.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, calls.Close()) })
	s := startWith(t, newEngine(t), timeout.Config{Callers: map[string]timeout.Caller{"http": calls}, All: true, TTL: 300 * time.Millisecond, CircuitWait: time.Second}, Config{})
	s.run(nil)
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/typo/tasks/a", `{}`)
	eventually(t, func() bool { return len(get[wire.Stats](s, "/v1/stats").Unserved) > 0 }, "the topic is unserved")
	require.Equal(t, []string{"typo"}, get[wire.Stats](s, "/v1/stats").Unserved)
	require.Contains(t, s.ask(http.StatusOK, http.MethodGet, "/metrics", ""), `heartwheel_timeout_unserved{topic="typo"} 1`)
	s.ask(http.StatusOK, http.MethodDelete, "/v1/topics/typo/tasks/a", "")
	eventually(t, func() bool { return len(get[wire.Stats](s, "/v1/stats").Unserved) == 0 }, "nothing waits any more")
}
