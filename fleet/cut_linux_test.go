package fleet

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// machineIsBusy is by how much things may seem to come in another order than they do.
const machineIsBusy = 1500 * time.Millisecond

// island is a gateway with one cable to Redis and one to its clients, and two gateways elsewhere.
type island struct {
	ledger
	toRedis, toClients *link
	addr               string   // for clients
	across             string   // for those that come by the cable to Redis
	mainland           []string // for clients of the others
	cfg                gatewayConfig
	others             []*gateway
}

func newIsland(t *testing.T, silence time.Duration, outlive bool) *island {
	process := spawnGateway(t, proctest.OwnNetwork(t)) // which ends with it, as do its links
	i := &island{toRedis: newLink(t, process.cmd.Process.Pid, 0), toClients: newLink(t, process.cmd.Process.Pid, 1)}
	server := testserver.Redis(t, "--bind", "127.0.0.1", i.toRedis.here.String(), "--protected-mode", "no")
	_, port, err := net.SplitHostPort(server.Addr)
	require.NoError(t, err)
	i.cfg = gatewayConfig{
		Prefix: prefix(), Lease: quickNodeLease, Renew: quickNodeLease / 5, Timeout: 2 * time.Second,
		Sweep: quickNodeLease / 10, Silence: silence, Outlive: outlive,
	}
	cfg := i.cfg
	cfg.URL, cfg.Node, cfg.Listen = "redis://"+net.JoinHostPort(i.toRedis.here.String(), port), "island", ":0"
	_, port, err = net.SplitHostPort(process.serve(t, cfg, &i.ledger))
	require.NoError(t, err)
	i.addr, i.across = net.JoinHostPort(i.toClients.there.String(), port), net.JoinHostPort(i.toRedis.there.String(), port)
	for n := range 2 {
		cfg := i.cfg
		cfg.URL, cfg.Node, cfg.Listen = server.URL, fmt.Sprint("mainland-", n), "127.0.0.1:0"
		g, err := openGateway(cfg, i.note)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, g.close()) })
		i.others, i.mainland = append(i.others, g), append(i.mainland, g.ln.Addr().String())
	}
	return i
}

// allTold waits until the ends of these registrations were told.
func (i *island) allTold(t *testing.T, clients []*client) {
	t.Helper()
	eventually(t, func() bool {
		offline := i.of("offline")
		for _, c := range clients {
			if len(offline[c.id]) == 0 {
				return false
			}
		}
		return true
	}, "all ends are told")
}

// quiet lets a lease go by. The clients in serving must still be served. The ends told must all be
// of old, each once and for the given reason.
func (i *island) quiet(t *testing.T, serving []*client, reason Reason, old ...*client) {
	t.Helper()
	allTalk(t, serving)
	time.Sleep(i.cfg.Lease + i.cfg.Sweep)
	allTalk(t, serving)
	told := make(map[string]int64)
	for _, c := range old {
		told[c.id] = c.epoch
	}
	for id, ends := range i.of("offline") {
		require.Len(t, ends, 1, id)
		require.Equal(t, told[id], ends[0].Epoch, id)
		require.Equal(t, reason, ends[0].Reason, id)
	}
}

func every(clients []*client, share, rest int) (some []*client) {
	for i, c := range clients {
		if i%share == rest {
			some = append(some, c)
		}
	}
	return some
}

func TestANodeThatIsCutOffFromRedisClosesItsConnectionsBeforeItsSessionsAreOffline(t *testing.T) {
	t.Parallel()
	i := newIsland(t, time.Minute, false)
	theirs, others := join(t, often, "island", 120, i.addr), join(t, seldom, "mainland", 60, i.mainland...)
	allTalk(t, theirs)
	i.toRedis.cut(t)
	cut := time.Now()
	// Half of them go elsewhere as soon as their connections are closed.
	leave, stay := every(theirs, 2, 0), every(theirs, 2, 1)
	back := make([]*client, len(leave))
	for n, c := range leave {
		<-c.gone
		back[n] = joinAs(t, c.id, i.mainland[n%2])
	}
	i.allTold(t, stay)
	offline, least := i.of("offline"), i.cfg.Lease
	for _, c := range theirs {
		<-c.gone
		require.Greater(t, c.served.Load(), cut.Add(i.cfg.Lease/2).UnixMicro(), "it serves for as long as its leases are")
		if ends := offline[c.id]; len(ends) > 0 {
			require.Less(t, c.served.Load(), ends[0].At, "it serves whom others know to be offline")
			least = min(least, time.Duration(ends[0].At-c.closed.Load())*time.Microsecond)
		}
	}
	t.Log("connections were closed before their sessions were offline, the last by", least)
	require.Greater(t, least, -machineIsBusy)
	_, err := dial(i.addr, "late")
	require.ErrorContains(t, err, "no:", "it can't register anybody, and says so")

	i.toRedis.heal(t)
	home := joinAllAs(t, idsOf(stay), i.addr)
	i.quiet(t, slices.Concat(home, back, others), ReasonExpired, theirs...)
}

func TestANodeThatMayOutliveItsLeasesServesWhileItIsCutOffFromRedis(t *testing.T) {
	t.Parallel()
	i := newIsland(t, time.Minute, true)
	theirs, others := join(t, often, "island", 120, i.addr), join(t, seldom, "mainland", 60, i.mainland...)
	allTalk(t, theirs)
	i.toRedis.cut(t)
	// A quarter are registered elsewhere before their ends are told, and a quarter after that.
	moved := joinAllAs(t, idsOf(every(theirs, 4, 0)), i.mainland...)
	stay := append(every(theirs, 2, 1), every(theirs, 4, 2)...)
	i.allTold(t, stay)
	moved = append(moved, joinAllAs(t, idsOf(every(theirs, 4, 2)), i.mainland...)...)
	since := time.Now().UnixMicro()
	eventually(t, func() bool {
		return !slices.ContainsFunc(theirs, func(c *client) bool { return c.heard.Load() < since })
	}, "all are answered, late as it is")
	require.Empty(t, i.of("end"))

	i.toRedis.heal(t)
	for n, c := range theirs {
		<-c.gone
		reason := ReasonMoved
		if n%2 == 1 {
			reason = ReasonExpired
		}
		eventually(t, func() bool { return len(i.of("end")[c.id]) == 1 }, "it says why")
		require.Equal(t, reason, i.of("end")[c.id][0].Reason, c.id)
	}
	home := joinAllAs(t, idsOf(every(theirs, 2, 1)), i.addr)
	i.quiet(t, slices.Concat(home, moved, others), ReasonExpired, stay...)
}

func TestANodeThatIsCutOffFromItsClientsEndsTheirSessions(t *testing.T) {
	t.Parallel()
	// Half of them register elsewhere before the Keeper's timeout, also on a busy machine.
	i := newIsland(t, 20*time.Second, false)
	theirs, others := join(t, often, "island", 120, i.addr), join(t, seldom, "mainland", 60, i.mainland...)
	others = append(others, join(t, seldom, "across", 60, i.across)...)
	allTalk(t, theirs)
	i.toClients.cut(t)
	cut := time.Now()
	moved := joinAllAs(t, idsOf(every(theirs, 2, 0)), i.mainland...)
	silent := every(theirs, 2, 1)
	i.allTold(t, silent)
	for _, c := range silent {
		require.Greater(t, i.of("offline")[c.id][0].At, cut.Add(i.cfg.Silence/2).UnixMicro(), "no sooner than the Keeper's timeout")
	}
	for _, c := range every(theirs, 2, 0) {
		eventually(t, func() bool { return len(i.of("end")[c.id]) > 0 }, "it says why")
		require.Equal(t, ReasonMoved, i.of("end")[c.id][0].Reason)
	}
	allTalk(t, others)

	i.toClients.heal(t)
	home := joinAllAs(t, idsOf(silent), i.addr)
	i.quiet(t, slices.Concat(home, moved, others), ReasonClosed, silent...)
}
