//go:build interop && unix

package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

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
