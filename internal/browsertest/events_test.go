//go:build browser

package browsertest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

// A browser's EventSource never sees a comment. Behind something that closes silent connections, it connects once with
// them, and again and again without.
func TestAnEventSourceOfAQuietStream(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	streams, err := ssekeepalive.New(ssekeepalive.Config{Interval: patience / 20})
	require.NoError(t, err)
	defer streams.Close()
	k, err := keepalive.New(keepalive.Config{Timeout: patience, Activity: keepalive.ActivityReadWrite})
	require.NoError(t, err)
	defer k.Close()
	event := make(chan string)
	quiet := func(event <-chan string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "retry: 10\n\n")
			for http.NewResponseController(w).Flush() == nil {
				select {
				case e := <-event:
					fmt.Fprintf(w, "data: %s\n\n", e)
				case <-r.Context().Done():
					return
				}
			}
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>events</title>")
	})
	mux.Handle("/kept", streams.Wrap(quiet(event)))
	mux.Handle("/silent", quiet(nil))
	s := httptest.NewUnstartedServer(mux)
	s.Listener = k.Listener(s.Listener) // without httpkeepalive, a handler that is quiet is a silence
	s.Start()
	defer s.Close()
	defer s.CloseClientConnections()

	b := tab.Open(t, s.URL, 800, 600)
	const connect = `(() => {
		window.opens = {}; window.messages = [];
		for (const path of ["/kept", "/silent"]) {
			opens[path] = 0;
			const events = new EventSource(path);
			events.onopen = () => opens[path]++;
			events.onmessage = (e) => messages.push(path + " " + e.data);
		}
		return true;
	})()`
	require.True(t, tab.Eval[bool](b, connect))
	b.Until(`opens["/silent"] >= 2`)
	b.Until(`opens["/kept"] === 1`)
	require.Positive(t, streams.Stats().Comments)
	event <- "hello"
	b.Until(`messages.length > 0`)
	require.Equal(t, []string{"/kept hello"}, tab.Eval[[]string](b, `messages`))
	require.Equal(t, 1, tab.Eval[int](b, `opens["/kept"]`))
}
