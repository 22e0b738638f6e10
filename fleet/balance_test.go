package fleet

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Two nodes are full when a third one joins. Each lets its surplus go, and the clients resume their sessions on the new one.
func TestANodeThatJoinsGetsItsPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 60
		config := nodeConfig
		config.NodeLease, config.Lease = time.Minute, 10*time.Minute
		f := newFleet(t, 0, config)
		join := func(name string) (*Node, *keepalive.Keeper) {
			k, err := keepalive.New(keepalive.Config{Timeout: time.Hour})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, k.Close()) })
			cfg := f.diary.config(config)
			cfg.Keeper = k
			n := f.add(t, name, cfg)
			time.Sleep(time.Second)
			return n, k
		}
		register := func(n *Node, k *keepalive.Keeper, id string) *Session {
			inner, _ := net.Pipe()
			s, err := n.Register(ctx, k.Conn(inner), id, nil)
			require.NoError(t, err)
			return s
		}
		var nodes []*Node
		var keepers []*keepalive.Keeper
		var sessions []*Session
		for i := range 2 {
			n, k := join(fmt.Sprint("node-", i))
			nodes, keepers = append(nodes, n), append(keepers, k)
			for j := range each {
				sessions = append(sessions, register(n, k, fmt.Sprint(i, "-", j)))
			}
		}
		b, err := nodes[0].Balance(ctx)
		require.NoError(t, err)
		require.Equal(t, Balance{Nodes: 2, Sessions: 2 * each, Own: each}, b)

		third, keeper := join("node-2")
		for i, n := range nodes {
			b, err := n.Balance(ctx)
			require.NoError(t, err)
			require.Equal(t, Balance{Nodes: 3, Sessions: 2 * each, Own: each, Surplus: each / 3}, b)
			shed, err := keepers[i].Shed(ctx, keepalive.Shed{Count: b.Surplus, PerSecond: 10})
			require.NoError(t, err)
			require.Equal(t, b.Surplus, shed)
		}
		synctest.Wait()
		for _, s := range sessions {
			if s.Reason() != 0 {
				require.Equal(t, ReasonDetached, s.Reason())
				require.True(t, register(third, keeper, s.ID()).Resumed())
			}
		}
		for _, n := range append(nodes, third) {
			b, err := n.Balance(ctx)
			require.NoError(t, err)
			require.Equal(t, Balance{Nodes: 3, Sessions: 2 * each, Own: 2 * each / 3}, b)
		}
		time.Sleep(time.Minute)
		require.Empty(t, f.diary.offlines(), "no session has ended")

		require.NoError(t, third.Drain(ctx))
		require.NoError(t, third.Close())
		b, err = nodes[0].Balance(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, b.Nodes)
		for _, n := range f.nodes {
			require.NoError(t, n.Close())
		}
	})
}

func TestBalanceNeedsALeaseOfTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		_, err := f.nodes[0].Balance(ctx)
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, "Balance without a NodeLease")
	})
}

func TestBalanceOnAServer(t *testing.T) {
	r := newReal(t, testserver.SharedRedis(t), 3, func(c *Config) { *c = beating(*c) })
	fill(t, r.nodes[0], "a", 10)
	fill(t, r.nodes[1], "b", 3)
	require.Eventually(t, func() bool {
		b, err := r.nodes[2].Balance(ctx)
		return err == nil && b.Nodes == 3
	}, time.Minute, time.Millisecond)
	b, err := r.nodes[0].Balance(ctx)
	require.NoError(t, err)
	require.Equal(t, Balance{Nodes: 3, Sessions: 13, Own: 10, Surplus: 5}, b)
	require.NoError(t, r.nodes[2].Close())
	require.Eventually(t, func() bool {
		b, err = r.nodes[0].Balance(ctx)
		return err == nil && b.Nodes == 2
	}, time.Minute, time.Millisecond)
	require.Equal(t, 3, b.Surplus)
	require.NoError(t, r.nodes[1].Close())
	_, err = r.nodes[1].Balance(ctx)
	require.ErrorIs(t, err, ErrClosed)
}

// A request that is under way ends its connection itself, since it was told to: only the context says why.
func TestASessionOfARequestThatWasToldToEndWaitsToBeResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for how, leave := range map[string]func(k *keepalive.Keeper) error{
			"shed":  func(k *keepalive.Keeper) error { _, err := k.Shed(t.Context(), keepalive.Shed{Count: 1}); return err },
			"drain": func(k *keepalive.Keeper) error { return k.Drain(t.Context(), 0) },
		} {
			k, err := keepalive.New(keepalive.Config{Timeout: time.Hour})
			require.NoError(t, err)
			config := nodeConfig
			config.NodeLease, config.Lease = time.Minute, 10*time.Minute
			f := newFleet(t, 0, config)
			cfg := f.diary.config(config)
			cfg.Keeper = k
			n := f.add(t, "node-"+how, cfg)
			time.Sleep(time.Second)
			inner, _ := net.Pipe()
			c := k.Conn(inner)
			told := make(chan bool, 1)
			keepalive.Of(c).Binding().Exchanges(func() { told <- true }, nil) // as httpkeepalive does
			keepalive.Of(c).Binding().Exchange(true)
			s, err := n.Register(t.Context(), c, how, nil)
			require.NoError(t, err)
			left := make(chan error, 1)
			go func() { left <- leave(k) }()
			<-told
			require.NoError(t, c.Close())
			require.NoError(t, <-left)
			time.Sleep(time.Second)
			require.Equal(t, ReasonDetached, s.Reason(), how)
			require.NoError(t, k.Close())
		}
	})
}
