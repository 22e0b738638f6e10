package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/timeout/internal/testserver"
)

// realFleet is some nodes on a Redis server, and what they were told.
type realFleet struct {
	url, prefix string
	nodes       []*Node
	diary       diary
}

func newReal(t testing.TB, server *testserver.Server, count int, change func(*Config)) *realFleet {
	r := &realFleet{url: server.URL, prefix: prefix()}
	for i := range count {
		cfg := r.diary.config(quick(r.url, r.prefix, fmt.Sprint("node-", i)))
		if change != nil {
			change(&cfg)
		}
		n, err := New(context.Background(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, n.Close()) })
		r.nodes = append(r.nodes, n)
	}
	return r
}

// fill registers sessions on a node, many at the same time.
func fill(t testing.TB, n *Node, name string, count int) []*Session {
	sessions := make([]*Session, count)
	var all errgroup.Group
	for worker := range 16 {
		all.Go(func() (err error) {
			for i := worker; i < count && err == nil; i += 16 {
				sessions[i], err = n.Register(ctx, &conn{}, fmt.Sprint(name, "-", i), nil)
			}
			return err
		})
	}
	require.NoError(t, all.Wait())
	return sessions
}

func allAlive(t testing.TB, sessions []*Session) {
	t.Helper()
	for _, s := range sessions {
		require.True(t, s.Alive(), "%s: %v", s.ID(), s.Reason())
	}
}

// by returns the ends that were told, by session: the highest epoch of each.
func (d *diary) by() map[string]Offline {
	ends := make(map[string]Offline)
	for _, o := range d.offlines() {
		if o.Epoch > ends[o.Session].Epoch {
			ends[o.Session] = o
		}
	}
	return ends
}

func TestAKilledNodesSessionsAreToldOrComeBackAndNoOthersAreTouched(t *testing.T) {
	t.Parallel()
	r := newReal(t, testserver.SharedRedis(t), 2, nil)
	const count = 2000
	dying := startChild(t, r.url, r.prefix, count)
	live := append(fill(t, r.nodes[0], "live-0", 500), fill(t, r.nodes[1], "live-1", 500)...)
	dying.kill()
	killed := time.Now()
	// A third comes back, all over the time at which leases end.
	back := make([]*Session, count/3)
	var all errgroup.Group
	for worker := range 20 {
		all.Go(func() (err error) {
			for i := worker; i < len(back) && err == nil; i += 20 {
				time.Sleep(time.Duration(rand.Int64N(int64(200 * time.Millisecond))))
				back[i], err = r.nodes[i%2].Register(ctx, &conn{}, childSession(i), nil)
			}
			return err
		})
	}
	require.NoError(t, all.Wait())
	eventually(t, func() bool {
		ends := r.diary.by()
		for i := len(back); i < count; i++ {
			if _, told := ends[childSession(i)]; !told {
				return false
			}
		}
		return true
	}, "all that did not come back are told")
	t.Log("all were told after", time.Since(killed))
	for i, s := range back {
		end := r.diary.by()[childSession(i)]
		require.Less(t, end.Epoch, s.Epoch(), "the new session is told to be offline")
	}
	allAlive(t, back)
	allAlive(t, live)
	for id, end := range r.diary.by() {
		require.Equal(t, ReasonExpired, end.Reason, id)
		require.Equal(t, "child", end.Node, id)
	}
	online, err := r.nodes[0].Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, len(live)+len(back), online)
}

func TestRedisThatStandsStillForLongerThanALeaseHasNobodyOffline(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	r := newReal(t, server, 2, func(c *Config) { c.Outlive = true })
	sessions := append(fill(t, r.nodes[0], "a", 300), fill(t, r.nodes[1], "b", 300)...)
	server.Pause(t)
	time.Sleep(4500 * time.Millisecond)
	server.Continue(t)
	time.Sleep(4 * time.Second)
	for _, s := range sessions {
		require.Zero(t, s.Reason())
	}
	eventually(t, func() bool {
		for _, s := range sessions {
			if !s.Alive() {
				return false
			}
		}
		return true
	}, "all are alive again")
	require.Empty(t, r.diary.offlines())
}

func TestARedisThatComesBackEmptyIsToldAgain(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	r := newReal(t, server, 2, nil)
	sessions := append(fill(t, r.nodes[0], "a", 300), fill(t, r.nodes[1], "b", 300)...)
	epoch := sessions[0].Epoch()
	server.Kill(t)
	server.Restart(t)
	eventually(t, func() bool {
		online, err := r.nodes[1].Count(ctx)
		return err == nil && online == 600
	}, "all are there again")
	allAlive(t, sessions)
	require.Greater(t, sessions[0].Epoch(), epoch)
	require.Empty(t, r.diary.offlines())
	// Nobody who comes now decides that there are other slots.
	cfg := quick(r.url, r.prefix, "other")
	cfg.Slots = 8
	eventually(t, func() bool {
		n, err := New(ctx, cfg)
		if err == nil {
			n.Close()
		}
		return err != nil
	}, "the slots are known again")
}

func TestASessionThatHopsHasOneOwnerAndNoEnd(t *testing.T) {
	t.Parallel()
	r := newReal(t, testserver.SharedRedis(t), 3, nil)
	var mu sync.Mutex
	var all []*Session
	var hoppers errgroup.Group
	for hopper := range 3 {
		hoppers.Go(func() error {
			for i := range 300 {
				s, err := r.nodes[(hopper+i)%3].Register(ctx, &conn{}, "hopper", nil)
				if errors.Is(err, ReasonMoved) { // somebody was faster
					continue
				}
				if err != nil {
					return err
				}
				mu.Lock()
				all = append(all, s)
				mu.Unlock()
			}
			return nil
		})
	}
	require.NoError(t, hoppers.Wait())
	newest := all[0]
	for _, s := range all {
		if s.Epoch() > newest.Epoch() {
			newest = s
		}
	}
	eventually(t, func() bool { return r.nodes[0].Len()+r.nodes[1].Len()+r.nodes[2].Len() == 1 }, "one has it")
	for _, s := range all {
		if s != newest {
			require.Equal(t, ReasonMoved, s.Reason())
			eventually(t, func() bool { return s.Conn().(*conn).closed.Load() == 1 }, "its connection is closed")
		}
	}
	require.True(t, newest.Alive())
	require.Empty(t, r.diary.offlines())
	where, err := r.nodes[0].Lookup(ctx, "hopper")
	require.NoError(t, err)
	require.Equal(t, newest.Epoch(), where.Epoch)
}

func TestKickDrainAndCountOnOneServer(t *testing.T) {
	t.Parallel()
	useFleet(t, testserver.SharedRedis(t))
}

func TestKickDrainAndCountOnACluster(t *testing.T) {
	t.Parallel()
	useFleet(t, testserver.RedisCluster(t, 3, 0).Nodes[0])
}

// useFleet does all that there is with a fleet of two.
func useFleet(t *testing.T, server *testserver.Server) {
	r := newReal(t, server, 2, nil)
	sessions := fill(t, r.nodes[0], "a", 100)
	fill(t, r.nodes[1], "b", 100)
	online, err := r.nodes[0].Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 200, online)
	where, err := r.nodes[1].Lookup(ctx, "a-7")
	require.NoError(t, err)
	require.Equal(t, "node-0", where.Node)
	require.WithinDuration(t, time.Now(), where.Since, time.Minute)
	require.NoError(t, r.nodes[1].Kick(ctx, "a-7"))
	eventually(t, func() bool { return sessions[7].Reason() == ReasonKicked }, "it is kicked")
	eventually(t, func() bool { return r.diary.by()["a-7"].Reason == ReasonKicked }, "it is told")
	require.NoError(t, r.nodes[0].Drain(ctx))
	for i := range 100 {
		if i != 7 {
			register(t, r.nodes[1], fmt.Sprint("a-", i))
		}
	}
	time.Sleep(4 * time.Second) // more than the window
	require.Len(t, r.diary.by(), 1)
	require.Equal(t, 199, r.nodes[1].Len())
}

func TestTheNumberOfSlotsIsForEver(t *testing.T) {
	t.Parallel()
	server := testserver.SharedRedis(t)
	r := newReal(t, server, 1, func(c *Config) { c.Slots = 4 })
	cfg := quick(r.url, r.prefix, "other")
	n, err := New(ctx, cfg) // takes what there is
	require.NoError(t, err)
	fill(t, r.nodes[0], "a", 10)
	online, err := n.Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 10, online)
	require.NoError(t, n.Close())
	cfg.Slots = 8
	_, err = New(ctx, cfg)
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorContains(t, err, "Slots 8, must be 4")
}

func TestAFullServerKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	r := newReal(t, server, 1, nil)
	sessions := fill(t, r.nodes[0], "a", 50)
	client := connect(t, server)
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "1mb").Err())
	_, err := r.nodes[0].Register(ctx, &conn{}, "b", nil)
	require.ErrorIs(t, err, ErrFull)
	time.Sleep(4 * time.Second)
	allAlive(t, sessions)
	sessions[0].Close()
	eventually(t, func() bool { return len(r.diary.by()) == 1 }, "ends are told")
}
