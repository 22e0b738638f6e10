package server

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// MinBeat counts lines and not reads: a thousand lines in a packet are a thousand.
func TestMinBeatCountsLines(t *testing.T) {
	for name, listener := range map[string]func() net.Listener{
		"Addr":     func() net.Listener { return nil },
		"Listener": func() net.Listener { return listen(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			const closes = "ERR more than a heartbeat per 100ms\n"
			r := startOn(t, listener(), Config{Config: keepalive.Config{Timeout: time.Minute, Tick: 10 * ms, Rate: keepalive.Rate{MinBeat: 100 * ms, Strikes: 1}}})
			peers := map[string]struct {
				lines int // per packet
				pause time.Duration
				many  bool
			}{
				"packets of a thousand": {1000, 500 * ms, true},
				"single lines":          {1, 20 * ms, true},
				"a packet now and then": {2, time.Second, false},
			}
			end := make(chan struct{})
			results := make(chan string, len(peers))
			for name, p := range peers {
				c := r.dial(t)
				go func() {
					heard := make(chan string, 1)
					go func() { b, _ := io.ReadAll(c); heard <- string(b) }()
					for again := time.Tick(p.pause); ; {
						_, _ = io.WriteString(c, strings.Repeat("BEAT\n", p.lines))
						select {
						case said := <-heard:
							results <- name + ": " + said
							return
						case <-end:
							_, _ = io.WriteString(c, "QUIT\n")
							results <- name + ": " + <-heard
							return
						case <-again:
						}
					}
				}()
			}
			for range 2 {
				got := <-results
				peer, said, _ := strings.Cut(got, ": ")
				require.True(t, peers[peer].many, got)
				// The peer may still be sending, and then a reset can take the words away.
				require.Contains(t, []string{"", closes}, said, got)
			}
			close(end)
			require.Equal(t, "a packet now and then: BYE\n", <-results)
			require.EqualValues(t, 2, r.Stats().Closed[keepalive.ReasonTooMany])
		})
	}
}
