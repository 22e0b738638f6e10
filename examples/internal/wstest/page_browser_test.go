//go:build browser

package wstest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// A browser answers pings by itself, and tells its page of the close frame.
func TestThePage(t *testing.T) {
	for _, v := range eachLibrary() {
		t.Run(v.library, func(t *testing.T) {
			s := start(t, v, func(ws socket, _ *keepalive.Guard) error {
				_, err := ws.read()
				return err
			})
			b := tab.Open(t, s.url("http", "/"), 800, 600)
			tab.Eval[bool](b, `(() => {
				window.socket = new WebSocket("ws://" + location.host + "/ws?name=alice")
				socket.onclose = e => document.title = [e.code, e.reason, e.wasClean].join(" ")
				return true
			})()`)
			require.Eventually(t, func() bool { return s.keeper.Stats().Probes >= 4 }, exampletest.Late, time.Millisecond, "two timeouts")
			require.Equal(t, 1, tab.Eval[int](b, "socket.readyState"), "open")
			for g := range s.keeper.Guards() {
				g.Close(keepalive.ReasonMaxAge)
			}
			b.Until(`document.title === "1001 max_age true"`)
			s.requireEnd(t, keepalive.ReasonMaxAge)
		})
	}
}
