package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// An id with a question mark that was not escaped names another task, or a topic: nothing is done.
func TestAQuestionMarkInAPathDoesNoHarm(t *testing.T) {
	s := start(t, Config{})
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/a", `{"after":"1h"}`)
	for where, name := range map[string]string{
		"DELETE /v1/topics/t/tasks/a?b":          `parameter "b"`,
		"DELETE /v1/topics/t/tasks/a?":           "question mark",
		"DELETE /v1/topics/t?x/tasks/1":          `parameter "x/tasks/1"`,
		"PUT /v1/topics/t/tasks/a?b=1":           `parameter "b"`,
		"POST /v1/topics/t/tasks/a?/move":        `parameter "/move"`,
		"POST /v1/topics/t/dead/drop?couse=x":    `parameter "couse", must be one of ["cause" "cursor"]`,
		"POST /v1/topics/t/dead/drop?cause=":     `parameter "cause" is empty`,
		"POST /v1/topics/t/dead/replay?cause":    `parameter "cause" is empty`,
		"GET /v1/topics/t/tasks?limit=":          `parameter "limit" is empty`,
		"GET /v1/topics/t/tasks?State=dead":      `parameter "State", must be one of ["state" "limit" "cursor" "metadata[]"]`,
		"GET /v1/topics/t/tasks?limit=1&limit=2": `parameter "limit" is there 2 times`,
		"GET /v1/topics/t/tasks/a?%zz":           "query",
	} {
		method, path, _ := strings.Cut(where, " ")
		a := s.raw(method, path, "{}")
		if method == http.MethodPost && strings.HasSuffix(path, "/move") { // no such route
			require.Equal(t, http.StatusMethodNotAllowed, a.status, where)
			continue
		}
		require.Equal(t, http.StatusBadRequest, a.status, where)
		require.Contains(t, a.problem(t).Detail, name, where)
	}
	require.Equal(t, timeout.Pending, get[wire.Task](s, "/v1/topics/t/tasks/a").State)
}

// Each route refuses what it does not know.
func TestUnknownParametersAreRefused(t *testing.T) {
	s := start(t, Config{})
	routes := s.handler.routes()
	for _, route := range routes {
		pattern, _ := route.split()
		method, path, _ := strings.Cut(strings.NewReplacer("{topic}", "t", "{id}", "a", "{$}", "").Replace(pattern), " ")
		a := s.raw(method, path+"?nonsense=1", "{}")
		require.Equal(t, http.StatusBadRequest, a.status, pattern)
		require.Contains(t, a.problem(t).Detail, `parameter "nonsense"`, pattern)
	}
	require.Contains(t, s.raw(http.MethodGet, "/metrics?name[]=go_goroutines&name[]=heartwheel_timeout_nodes", "").body, "go_goroutines")
}
