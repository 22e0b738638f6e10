//go:build interop && unix

package main

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/callback"
)

// A target gets a lease token, and no other authority. It tells the outcome to another node than the
// one that has called, and can do nothing else.
func TestATargetTellsAnyNodeTheOutcome(t *testing.T) {
	redis := newRedis(t).URL
	t.Parallel()
	tokens := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens <- r.Header.Get(callback.HeaderToken)
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(target.Close)
	const admin = "admin-0123456789"
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	with := process{args: []string{"-callback-allow", "127.0.0.0/8"}, env: []string{"REDIS_URL=" + redis, "TIMEOUTD_ADMIN_TOKEN=" + admin, "TIMEOUTD_FEEDBACK_KEY=" + secret}}
	one, other := start(t, with), start(t, with)
	authority := []string{"Authorization", "Bearer " + admin}
	task := `{"callback":{"kind":"http","target":"` + target.URL + `","header":{"Prefer":"respond-async"}}}`
	status, text := one.ask(t, http.MethodPut, "/v1/topics/t/tasks/a", task, authority...)
	require.Equal(t, http.StatusCreated, status, text)
	token := <-tokens
	for _, p := range []*process{one, other} {
		status, text = p.ask(t, http.MethodPost, "/v1/feedback", `{"token":"`+token[:len(token)-4]+`AAAA"}`)
		require.Equal(t, http.StatusForbidden, status, text)
		status, text = p.ask(t, http.MethodDelete, "/v1/topics/t/tasks/a", "", "Authorization", "Bearer "+token)
		require.Equal(t, http.StatusUnauthorized, status, text)
	}
	for _, settled := range []string{"true", "false"} {
		status, text = other.ask(t, http.MethodPost, "/v1/feedback", `{"token":"`+token+`"}`)
		require.Equal(t, http.StatusOK, status, text)
		require.Equal(t, `{"settled":`+settled+"}\n", text)
	}
}
