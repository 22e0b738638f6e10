//go:build interop && unix

package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A store hangs while a load balancer asks. The node is not ready then, and is ready within 2 s of the
// store's recovery, however long the store was away.
func TestReadyAgainSoonAfterAStallOfTheStore(t *testing.T) {
	redis := newRedis(t)
	t.Parallel()
	p := start(t, process{env: []string{"REDIS_URL=" + redis.URL}})
	ready := func() bool { status, _ := p.ask(t, http.MethodGet, "/readyz", ""); return status == http.StatusOK }
	until := func(want bool) (took time.Duration) {
		began := time.Now()
		require.Eventually(t, func() bool { return ready() == want }, eternal, 100*time.Millisecond)
		return time.Since(began)
	}
	until(true)
	redis.Pause(t)
	stopped := time.Now()
	until(false)
	for time.Since(stopped) < 6*time.Second {
		require.False(t, ready())
		time.Sleep(100 * time.Millisecond)
	}
	redis.Continue(t)
	took := until(true)
	t.Logf("ready %v after the store", took)
	require.Less(t, took, 4*time.Second, "2 s, and room for a busy machine")
}
