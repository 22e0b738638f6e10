//go:build browser

package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/fleet/internal/gateway"
	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
	"github.com/heartwheel-go/heartwheel/internal/redisserver"
)

// evil is a session. As markup it would be an image with a script.
const evil = `<img/src=x/onerror="document.title='evil'">`

// TestThePage looks at the page of a demo without gateways. The sessions are on nodes of the
// test's own.
func TestThePage(t *testing.T) {
	r, err := redisserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(r.Stop)
	d := newDemo(config{}, io.Discard)
	join := func(name string) *fleet.Node {
		n, err := fleet.Open(t.Context(), r.URL, fleet.Config{Prefix: d.prefix, Node: name, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, n.Close()) })
		return n
	}
	d.watch = join("presence")
	var sessions []*fleet.Session
	for i, name := range []string{"node-1", "node-2", "node-3"} {
		d.town.add(&node{name: name, addr: "127.0.0.1:900" + name[5:], state: up, figures: gateway.Figures{Renewals: 100}})
		at := join(name)
		for j := range 100 {
			id := fmt.Sprintf("session-%d-%02d", i+1, j)
			if i+j == 0 {
				id = evil
			}
			s, err := at.Register(t.Context(), io.NopCloser(nil), id, nil)
			require.NoError(t, err)
			d.ledger.welcome(id, name, s.Epoch(), "new")
			sessions = append(sessions, s)
		}
	}
	d.town.all()[1].become(killed)
	d.ledger.event(gateway.Event{Name: "offline", Session: evil, Epoch: 1, Reason: "expired", Node: evil})
	d.say("a session is called %s", evil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d.web = newWeb(ln, d)
	t.Cleanup(d.web.close)

	url := "http://" + ln.Addr().String() + "/"
	b := tab.Open(t, url, 1360, 900)
	b.Until(`document.body.dataset.drawn >= 2`)
	b.Run("everybody is where they are", func(t *testing.T) {
		require.Equal(t, 300, tab.Eval[int](b, `document.querySelectorAll("#sessions i").length`))
		require.Equal(t, 100, tab.Eval[int](b, `document.querySelectorAll("#sessions i.c-3").length`))
		require.Equal(t, "killed", tab.Eval[string](b, `document.querySelector("[data-node=node-2] td:nth-child(3)").textContent`))
		require.NoError(t, sessions[299].Close())
		b.Until(`document.querySelectorAll("#sessions i.c-3").length === 99`)
		b.Until(`$("legend").textContent.includes("offline 1")`)
	})
	b.Run("what comes from outside is text", func(t *testing.T) {
		b.Until(`document.querySelector("#events td:nth-child(3)").textContent === ` + "`" + evil + "`")
		require.Contains(t, tab.Eval[string](b, `$("story").textContent`), evil)
		require.Zero(t, tab.Eval[int](b, `document.querySelectorAll("img").length`))
		require.NotEqual(t, "evil", tab.Eval[string](b, `document.title`))
	})
	b.Run("a question is answered", func(t *testing.T) {
		for session, want := range map[string]string{evil: "at node-1 since", "session-2-00": "at node-2 since", "nobody": "nowhere", "../count": "nowhere", "": ""} {
			require.True(t, tab.Eval[bool](b, "(() => { $('session').value = `"+session+"`; $('session').dispatchEvent(new Event('input')); return true; })()"))
			b.Until(`$("presence").textContent.startsWith("` + want + `") && ("` + want + `" !== "" || $("presence").textContent === "")`)
		}
	})
	b.Keep("fleet.png", "light", 1360, 900)
	b.Keep("fleet-dark.png", "dark", 1360, 900)
	b.Keep("fleet-phone.png", "light", 390, 1500)
	d.web.close()
	b.Until(`$("live").classList.contains("lost")`)
	b.RequireOwnRequests(func(r string) bool { return strings.HasPrefix(r, url) })
}
