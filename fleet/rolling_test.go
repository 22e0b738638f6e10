package fleet

import (
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

// stay goes on until done is closed.
func (l *loyal) stay(addrs *atomic.Pointer[[]string], every time.Duration, done <-chan struct{}) {
	for {
		all := *addrs.Load()
		if c, err := dial(all[rand.IntN(len(all))], l.id); err == nil {
			l.epochs = append(l.epochs, c.epoch)
			l.last.Store(c)
			go c.talk(every)
			select {
			case <-c.gone:
			case <-done:
				c.conn.Close()
				<-c.gone
			}
		}
		select {
		case <-done:
			return
		case <-time.After(rand.N(100 * time.Millisecond)):
		}
	}
}

// Three gateways are replaced one after the other, with as many clients as they have. It is not for
// beside others: it takes all of a small machine.
func TestARollingRestartUnderLoadIsSilent(t *testing.T) {
	const clients, gateways = 3000, 3
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

	all, done := make([]*loyal, clients), make(chan struct{})
	var talking sync.WaitGroup
	for i := range all {
		all[i] = &loyal{id: fmt.Sprint("client-", i)}
		talking.Go(func() { all[i].stay(&where, time.Second, done) })
	}
	stop := sync.OnceFunc(func() {
		close(done)
		talking.Wait()
	})
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
	for _, l := range all {
		at, err := observer.Lookup(ctx, l.id)
		require.NoError(t, err)
		require.False(t, at.Detached, l.id)
		require.Equal(t, l.last.Load().epoch, at.Epoch)
	}
	require.Empty(t, told.of("offline"))
	stop()
	moves := 0
	for _, l := range all {
		for i := range l.epochs[1:] {
			moves++
			require.Greater(t, l.epochs[i+1], l.epochs[i])
		}
	}
	require.GreaterOrEqual(t, moves, clients, "each was on one that was replaced")
}
