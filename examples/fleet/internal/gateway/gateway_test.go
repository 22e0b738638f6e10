package gateway

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

func TestASessionComesMovesAndGoes(t *testing.T) {
	for name, args := range map[string][]string{
		"with a lease":               nil,
		"with the lease of its node": {"-node-lease", "18s", "-lease", "1m", "-renew", "20s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			comeMoveAndGo(t, args...)
		})
	}
}

func comeMoveAndGo(t *testing.T, args ...string) {
	n := newNodes(t)
	a, b := n.start(t, append(args, "-name", "a")...), n.start(t, append(args, "-name", "b")...)
	first := a.dial(t)
	require.Equal(t, "hello", first.ask(t, "hello"))
	before := first.welcome(t, "s", "new")
	require.Equal(t, "PONG 1", first.ask(t, "PING 1"))
	require.Contains(t, first.ask(t, "HELLO t"), `ERR session "s" is this connection's`)

	second := b.dial(t)
	after := second.welcome(t, "s", "moved")
	require.Greater(t, after, before)
	first.over(t, "BYE moved")
	a.says(t, "end", Event{Name: "end", Session: "s", Epoch: before, Reason: "moved"})
	require.Equal(t, "BYE", second.ask(t, "QUIT"))
	end := ends(t, "s", a, b)
	require.NotZero(t, end.LastSeen)
	require.GreaterOrEqual(t, end.At, end.LastSeen)
	require.Equal(t, Event{
		Name: "offline", Session: "s", Epoch: after, Reason: "closed", Node: "b", LastSeen: end.LastSeen, At: end.At, Attempt: 1,
	}, end)
	a.says(t, "online", Event{Name: "online", Session: "s", Epoch: before, Node: "a", Kind: "new"})
	b.says(t, "online", Event{Name: "online", Session: "s", Epoch: after, Node: "b", Kind: "moved"})
}

func TestWhatIsNoSessionIsRefusedWithTheLimit(t *testing.T) {
	t.Parallel()
	g := newNodes(t).start(t)
	c := g.dial(t)
	for line, want := range map[string]string{
		"HELLO":                             `ERR session "", must be a word without spaces or what can't be seen: HELLO session`,
		"HELLO ":                            `ERR session "", must be a word without spaces or what can't be seen: HELLO session`,
		"HELLO a b":                         `ERR session "a b", must be a word without spaces or what can't be seen: HELLO session`,
		"HELLO a\x00":                       `ERR session "a\x00", must be a word without spaces or what can't be seen: HELLO session`,
		"HELLO a\ufeff":                     `ERR session "a\ufeff", must be a word without spaces`,
		"HELLO a\u202eb":                    `ERR session "a\u202eb", must be a word without spaces`,
		"HELLO \xff":                        `must be from 1 to 512 bytes of UTF-8`,
		"HELLO " + strings.Repeat("x", 513): `must be from 1 to 512 bytes of UTF-8`,
		"HELLOS":                            "HELLOS",
	} {
		answer := c.ask(t, line)
		require.Contains(t, answer, want)
		require.NotContains(t, answer, "WELCOME")
	}
	c.welcome(t, "s", "new") // after all that
}

func TestAGatewayThatGoesDownLeavesItsSessionsToOthers(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	a, b := n.start(t), n.start(t)
	const count = 200
	var all []*caller
	for i := range count {
		c := a.dial(t)
		c.welcome(t, fmt.Sprint("s-", i), "new")
		all = append(all, c)
	}
	stranger := a.dial(t) // without a HELLO
	require.Equal(t, "PONG", stranger.ask(t, "PING"))
	a.end()
	for i, c := range all {
		c.over(t, "BYE draining")
		b.dial(t).welcome(t, fmt.Sprint("s-", i), "resumed")
	}
	stranger.over(t, "BYE server shutting down")
	require.Zero(t, a.stop(t))
	stats := a.events.Lines(`"stats"`)
	require.Contains(t, stats[len(stats)-1], `"sessions":0`)
	require.Len(t, a.said(t, "end"), count)
	for _, e := range b.said(t, "online") {
		require.Equal(t, "resumed", e.Kind)
	}
	require.Empty(t, append(a.said(t, "offline"), b.said(t, "offline")...))
}

func TestWhoHasNoSessionDoesNotStay(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	g := n.start(t, "-hello", "4s")
	began := time.Now()
	member, mute, stranger := g.dial(t), g.dial(t), g.dial(t)
	member.welcome(t, "s", "new")
	answer := "PONG"
	for answer == "PONG" {
		time.Sleep(100 * time.Millisecond)
		answer = stranger.ask(t, "PING\nBEAT\nBEAT")
	}
	require.Equal(t, "BYE no session for 4s", answer)
	require.Greater(t, time.Since(began), 4*time.Second)
	_, err := stranger.lines.ReadByte()
	require.Error(t, err, "nothing follows")
	mute.over(t, "BYE first message timeout 4s")
	require.Equal(t, "PONG", member.ask(t, "PING"))
}

func TestAKickAndSilenceEndASession(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	g := n.start(t, "-timeout", "4s")
	watcher := n.watcher(t)
	kicked := g.dial(t)
	kicked.welcome(t, "kicked", "new")
	require.Equal(t, "PONG", kicked.ask(t, "PING"), "its timeout begins anew after the registration")
	where, err := watcher.Lookup(t.Context(), "kicked")
	require.NoError(t, err)
	require.Equal(t, g.addr, where.Node)
	require.NoError(t, watcher.Kick(t.Context(), "kicked"))
	kicked.over(t, "BYE kicked")
	require.Equal(t, "kicked", ends(t, "kicked", g).Reason)
	quiet := g.dial(t)
	quiet.welcome(t, "quiet", "new")
	quiet.over(t, "BYE idle timeout 4s")
	require.Equal(t, "closed", ends(t, "quiet", g).Reason)
}

// The kick may be heard before the answer to the registration.
func TestAKickDuringARegistrationIsToldAsOne(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	g := n.start(t)
	watcher := n.watcher(t)
	for i := range 20 {
		id := fmt.Sprint("kicked-", i)
		kicked := make(chan struct{})
		go func() {
			defer close(kicked)
			err := fleet.ErrNotFound // until it is there
			for errors.Is(err, fleet.ErrNotFound) {
				err = watcher.Kick(t.Context(), id)
			}
		}()
		c := g.dial(t)
		answer := c.ask(t, "HELLO "+id)
		if strings.HasPrefix(answer, "WELCOME ") {
			answer = c.hear(t)
		}
		require.Equal(t, "BYE kicked", answer)
		_, err := c.lines.ReadByte()
		require.Error(t, err)
		<-kicked
	}
}

func TestWhoComesAndGoesAtOnceLeavesNoSession(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	g := n.start(t)
	watcher := n.watcher(t)
	var all sync.WaitGroup
	for worker := range 20 {
		all.Go(func() {
			for i := range 25 {
				c, err := net.Dial("tcp", g.addr)
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(c, "HELLO s-%d-%d\n", worker, i)
				if i%2 == 0 {
					time.Sleep(time.Duration(i) * 100 * time.Microsecond)
				}
				c.Close()
			}
		})
	}
	all.Wait()
	require.Eventually(t, func() bool {
		count, err := watcher.Count(t.Context())
		stats := g.events.Lines(`"stats"`)
		return err == nil && count == 0 && len(stats) > 0 && strings.Contains(stats[len(stats)-1], `"sessions":0`)
	}, late, 10*time.Millisecond)
}

func TestARedisThatIsAway(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	g := n.start(t)
	c, other := g.dial(t), g.dial(t)
	c.welcome(t, "s", "new")
	n.redis.Stop()
	require.Equal(t, "ERR try again: there is no answer from Redis", other.ask(t, "HELLO t"))
	require.Equal(t, "PONG", other.ask(t, "PING"))
	c.over(t, "BYE lost") // the lease is over
	require.Zero(t, g.stop(t))
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	n := newNodes(t)
	for args, want := range map[string]string{
		"-addr nowhere":         "gateway: server: invalid argument: Addr \"nowhere\"",
		"-lease 1ms":            "gateway: fleet: invalid argument: Lease 1ms, must be from 300ms to 168h0m0s",
		"-lease 3s -renew 2s":   "gateway: fleet: invalid argument: Lease 3s, must be at least 2 Renew (2s)",
		"-node-lease 1ms":       "gateway: fleet: invalid argument: NodeLease 1ms, must be from 300ms to",
		"-slots 3":              "gateway: fleet: invalid argument: Slots 3, must be a power of two from 1 to 1024",
		"-redis http://x":       "gateway: fleet: invalid argument: URL of Redis",
		"-hello -1s":            "gateway: invalid value -1s for flag -hello: must not be negative",
		"-drain -1s":            "gateway: invalid value -1s for flag -drain: must not be negative",
		"-log-format xml":       `gateway: invalid value "xml" for flag -log-format: must be text or json`,
		"-max-conns 999999999":  "gateway: server: invalid argument: Room.MaxConns 999999999: the process may have",
		"-lease soon":           `gateway: invalid value "soon" for flag -lease: parse error`,
		"now":                   `gateway: unexpected argument "now": there are only flags`,
		"-prefix {x} -addr :0":  `gateway: fleet: invalid argument: Prefix "{x}"`,
		"-timeout 1s -tick 10m": "gateway: server: invalid argument: keepalive: invalid argument: Tick 10m0s is longer than Timeout 1s",
	} {
		var out, log logtest.Log
		require.Equal(t, exitUsage, Main(t.Context(), append([]string{"-redis", n.redis.URL}, strings.Fields(args)...), &out, &log), args)
		require.Len(t, log.Lines(want), 1, log.String())
		require.Empty(t, out.String())
	}
	var out, log logtest.Log
	require.Zero(t, Main(t.Context(), []string{"-h"}, &out, &log))
	require.Contains(t, log.String(), "-lease")
	require.Equal(t, exitFailure, Main(t.Context(), []string{"-redis", "redis://127.0.0.1:1"}, &out, &log))
	require.Contains(t, log.String(), "connection refused")
}
