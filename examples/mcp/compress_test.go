package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

// A compressor goes around Wrap. Inside, its output is left alone, and so is whole.
func TestACompressorAroundTheStreams(t *testing.T) {
	t.Parallel()
	streams, err := ssekeepalive.New(ssekeepalive.Config{Interval: 20 * time.Millisecond})
	require.NoError(t, err)
	defer streams.Close()
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(0))
	require.NoError(t, err)
	quiet := func(comments uint64) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			before := streams.Stats().Comments
			for n := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", n)
				_ = http.NewResponseController(w).Flush()
				begun := time.Now()
				for time.Since(begun) < 50*time.Millisecond || streams.Stats().Comments < before+comments && time.Since(begun) < exampletest.Late {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for _, test := range []struct {
		name     string
		handler  http.Handler
		comments bool
	}{
		{"around", compress(streams.Wrap(quiet(1))), true},
		{"inside", streams.Wrap(compress(quiet(0))), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := httptest.NewServer(test.handler)
			defer s.Close()
			res, err := s.Client().Get(s.URL) // net/http uncompresses
			require.NoError(t, err)
			defer res.Body.Close()
			require.True(t, res.Uncompressed)
			var events, comments int
			for lines := bufio.NewScanner(res.Body); lines.Scan(); {
				switch line := lines.Text(); line {
				case fmt.Sprintf("data: %d", events):
					events++
				case ": ":
					comments++
				default:
					require.Empty(t, line)
				}
			}
			require.Equal(t, 3, events)
			require.Equal(t, test.comments, comments > 0)
		})
	}
}
