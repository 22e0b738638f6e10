//go:build interop && unix

package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

func TestRedisKeepsExecutionsIfTold(t *testing.T) {
	redis := "REDIS_URL=" + testserver.Redis(t).URL
	refused := process{args: []string{"-redis-executions", "101"}, env: []string{redis}}
	refused.launch(t)
	require.Error(t, refused.wait())
	require.Contains(t, refused.log.String(), "redis-executions 101, must be 0 to 100")

	p := start(t, process{args: []string{"-redis-volatile", "-redis-executions", "7", "-callback-allow", "127.0.0.0/8"}, env: []string{redis}})
	p.set(t, "t/tasks/a", `{"callback":{"kind":"http","target":"http://127.0.0.1:1/"}}`) // nobody listens
	require.Eventually(t, func() bool {
		status, body := p.ask(t, http.MethodGet, "/v1/topics/t/tasks/a/executions", "")
		return status == http.StatusOK && strings.Contains(body, `"as":"pending"`)
	}, eternal, 10*time.Millisecond)
}

// A Redis that keeps nothing on disk has to be asked for. In front of PostgreSQL it may be one.
func TestARedisWithoutADiskHasToBeAskedFor(t *testing.T) {
	redis := "REDIS_URL=" + testserver.Redis(t).URL
	refused := process{env: []string{redis}}
	refused.launch(t)
	require.Error(t, refused.wait())
	require.Contains(t, refused.log.String(), "keeps nothing on disk (appendonly no, and save is empty)")
	require.Contains(t, refused.log.String(), "-redis-volatile")

	for _, p := range []process{
		{args: []string{"-redis-volatile"}, env: []string{redis}},
		{env: []string{redis, "DATABASE_URL=" + testserver.Database(t)}},
	} {
		p := start(t, p)
		status, text := p.ask(t, http.MethodPut, "/v1/topics/t/tasks/a", `{"after":"1h"}`)
		require.Equal(t, http.StatusCreated, status, text)
	}
}
