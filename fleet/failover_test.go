package fleet

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// A replica takes over without the last writes: sessions were registered, moved and closed
// meanwhile.
func TestAFailoverThatLosesWritesLosesNoSession(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	replica := testserver.Redis(t, "--replicaof", host+" "+port)
	var address atomic.Value
	address.Store(master.Addr)
	r := newRealBy(t, master, 2, nil, func(cfg Config) (*Node, error) {
		client := goredis.NewClient(&goredis.Options{
			MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
			Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, address.Load().(string))
			},
		})
		t.Cleanup(func() { client.Close() })
		return New(ctx, client, cfg)
	})
	stay, closed, moved := fill(t, r.nodes[0], "stays", 200), fill(t, r.nodes[0], "closed", 50), fill(t, r.nodes[0], "moved", 50)
	to := connect(t, replica)
	eventually(t, func() bool {
		copied, err := connect(t, master).Wait(ctx, 1, time.Second).Result()
		return err == nil && copied == 1
	}, "the replica has all")
	require.NoError(t, to.ReplicaOf(ctx, "no", "one").Err())
	late := fill(t, r.nodes[0], "late", 100)
	anew := fill(t, r.nodes[1], "moved", 50)
	for _, s := range closed {
		s.Close()
	}
	eventually(t, func() bool { return len(r.diary.by()) == len(closed) }, "ends are told")
	before := late[0].Epoch()
	address.Store(replica.Addr)
	master.Kill(t)
	expected := int64(len(stay) + len(late) + len(anew))
	eventually(t, func() bool {
		online, err := r.nodes[1].Count(ctx)
		return err == nil && online == expected
	}, "all are there, and no others")
	time.Sleep(quickLease + time.Second)
	allAlive(t, stay)
	allAlive(t, late)
	allAlive(t, anew)
	require.Greater(t, late[0].Epoch(), before)
	for i, s := range moved {
		require.Equal(t, ReasonMoved, s.Reason())
		where, err := r.nodes[0].Lookup(ctx, fmt.Sprint("moved-", i))
		require.NoError(t, err)
		require.Equal(t, "node-1", where.Node)
	}
	for id := range r.diary.by() {
		require.Contains(t, id, "closed-")
	}
}

// A failover loses a session. The server changes once more before that session is due, such as by a
// restart or by going back to the first server.
func TestASessionLostByAFailoverIsRegisteredAgainAfterTwo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		register(t, f.nodes[1], "before")
		time.Sleep(time.Second)
		var older *model
		f.set(func() { older = f.model.clone() })
		s, c := register(t, f.nodes[0], "lost")
		time.Sleep(time.Second)
		f.set(func() { f.model.failOver(older, "b") })
		time.Sleep(2 * time.Second)
		register(t, f.nodes[1], "after")
		time.Sleep(2 * time.Second)
		f.set(func() { f.model.server = "c" }) // it has all the data of b
		time.Sleep(time.Minute)
		require.Zero(t, s.Reason())
		require.True(t, s.Alive())
		require.Zero(t, c.closed.Load())
	})
}

// Then lost epochs are higher than the time of the failover, and follow the last one known.
func TestASessionLostByAFailoverAfterTheClockWasSetBackIsUnknown(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0, 0)
	store := p.nodes[0]
	registers := func(id string) claim {
		ask := registration{id: id}
		answers, err := store.register(ctx, []registration{ask})
		require.NoError(t, err)
		require.Equal(t, p.model.register(store.by, store.cfg.Node, ask), answers[0])
		return claim{id, answers[0].token}
	}
	registers("before")
	p.model.now -= time.Hour.Microseconds()
	p.tellTime()
	p.remember()
	lost := []claim{registers("lost-1"), registers("lost-2")}
	p.failOver(p.older, p.dumps)
	after := []claim{registers("after-1"), registers("after-2"), registers("after-3")}
	extend := func(claims []claim) ([]verdict, error) { return store.extend(ctx, claims) }
	p.judged(lost, func(claim) verdict { return unknown }, extend)
	p.judged(after, func(claim) verdict { return held }, extend)
	require.Greater(t, after[0].token.epoch(), lost[1].token.epoch())
}
