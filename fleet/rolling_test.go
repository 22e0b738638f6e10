package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// loyal is a client. Whenever it has lost a gateway, it connects to another one.
type loyal struct {
	id     string
	epochs []int64                // of its connections, one after the other
	last   atomic.Pointer[client] // the newest
}

// stay goes on until ctx ends.
func (l *loyal) stay(ctx context.Context, addrs *atomic.Pointer[[]string], every time.Duration) {
	for {
		all := *addrs.Load()
		if c, err := dial(all[rand.IntN(len(all))], l.id); err == nil {
			l.epochs = append(l.epochs, c.epoch)
			l.last.Store(c)
			stop := context.AfterFunc(ctx, func() { c.conn.Close() })
			c.talk(every)
			stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(100 * time.Millisecond)):
		}
	}
}

// Three gateways are replaced one after the other, with as many clients as they have. It is not for
// beside others: it takes all of a small machine.
func TestARollingRestartUnderLoadIsSilent(t *testing.T) {
	const clients, gateways = 1500, 3
	server := testserver.SharedRedis(t)
	cfg := gatewayConfig{
		URL: server.URL, Prefix: prefix(), Listen: "127.0.0.1:0", Silence: 30 * time.Second, Lease: 15 * time.Second,
		Renew: 2 * time.Second, Timeout: 3 * time.Second, Sweep: 100 * time.Millisecond, Resume: 45 * time.Second,
	}
	var told ledger
	start := func(i int) (*gatewayChild, string) {
		cfg := cfg
		cfg.Node = fmt.Sprint("gateway-", i)
		process := spawnGateway(t, nil)
		return process, process.serve(t, cfg, &told)
	}
	var running []*gatewayChild
	var addrs []string
	for i := range gateways {
		process, addr := start(i)
		running, addrs = append(running, process), append(addrs, addr)
	}
	var where atomic.Pointer[[]string]
	where.Store(&addrs)

	all := make([]*loyal, clients)
	ctx, cancel := context.WithCancel(ctx)
	var talking sync.WaitGroup
	for i := range all {
		all[i] = &loyal{id: fmt.Sprint("client-", i)}
		talking.Go(func() { all[i].stay(ctx, &where, time.Second) })
	}
	stop := func() {
		cancel()
		talking.Wait()
	}
	defer stop()
	observer := newReal(t, server, 1, func(c *Config) { c.Prefix, c.OnOffline = cfg.Prefix, nil }).nodes[0]
	served := func() bool {
		since := time.Now().Add(-5 * time.Second).UnixMicro()
		for _, l := range all {
			c := l.last.Load()
			if c == nil || c.closed.Load() != 0 || c.served.Load() < since {
				return false
			}
		}
		return true
	}
	eventually(t, served, "all are served")
	began := time.Now()
	for i, old := range running {
		old.finish(t)
		_, addr := start(gateways + i)
		now := append([]string(nil), *where.Load()...)
		now[i] = addr
		where.Store(&now)
		eventually(t, served, "all are served again")
	}
	t.Log("all were replaced within", time.Since(began))
	online, err := observer.Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, clients, online)
	ids := make([]string, clients)
	for i, l := range all {
		ids[i] = l.id
	}
	found, err := observer.LookupAll(ctx, ids)
	require.NoError(t, err)
	for i, l := range all {
		if at := found[i]; at.Session != l.id || at.Detached || at.Epoch != l.last.Load().epoch {
			t.Fatalf("%s has epoch %d, but is %+v", l.id, l.last.Load().epoch, at)
		}
	}
	require.Empty(t, told.of("offline"))
	stop()
	moves := 0
	for _, l := range all {
		for i := range l.epochs[1:] {
			moves++
			if l.epochs[i+1] <= l.epochs[i] {
				t.Fatal(l.id, l.epochs)
			}
		}
	}
	require.GreaterOrEqual(t, moves, clients, "each was on one that was replaced")
}
