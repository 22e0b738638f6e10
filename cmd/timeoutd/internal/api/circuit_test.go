package api

import (
	"net/http"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func TestAnOpenCircuitIsClosedByARequest(t *testing.T) {
	calls, err := httpcall.New(httpcall.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, calls.Close()) })
	s := startWith(t, newEngine(t), timeout.Config{Callers: map[string]timeout.Caller{"http": calls}, All: true, Circuit: 1, CircuitWait: time.Hour}, Config{})
	s.run(nil)
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/hooks/tasks/a", `{"callback":{"kind":"http","target":"http://127.0.0.1:1/?a&b"}}`)
	var open []string
	eventually(t, func() bool { open = get[wire.Stats](s, "/v1/stats").Circuits; return len(open) > 0 }, "the target can't be reached")
	at := "/v1/circuits/close?" + url.Values{"circuit": open}.Encode()
	s.ask(http.StatusNoContent, http.MethodPost, at, "")
	require.Empty(t, get[wire.Stats](s, "/v1/stats").Circuits)
	require.Contains(t, s.ask(http.StatusNotFound, http.MethodPost, at, ""), open[0])
	s.ask(http.StatusBadRequest, http.MethodPost, at, `{}`)
	s.ask(http.StatusBadRequest, http.MethodPost, at+"&circuit=other", "")
	s.ask(http.StatusNotFound, http.MethodPost, "/v1/circuits/close", "")
}
