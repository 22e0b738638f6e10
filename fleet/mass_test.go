package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// massLease is a lease for count sessions. It is longer than that of other tests, and leaves the child time
// for 100,000 renewals with the race detector. On a machine with other things to do it is twice as long as
// all registrations take, as a tenth of them shows.
func massLease(t *testing.T, server *testserver.Server, count int) time.Duration {
	r := newReal(t, server, 1, nil)
	began := time.Now()
	_, err := registerAll(r.nodes[0], "first", count/10, 1024)
	require.NoError(t, err)
	took := time.Since(began)
	require.NoError(t, r.nodes[0].Close())
	lease := min(max(15*time.Second, 20*took), 90*time.Second)
	t.Logf("%d sessions were there after %v, so a lease is %v", count/10, took, lease)
	return lease
}

// funeral counts the ends told, by session: the highest epoch of each.
type funeral struct {
	mu    sync.Mutex
	ends  map[string]int64
	told  int
	first time.Time
	last  time.Time
}

func (f *funeral) tell(_ context.Context, o Offline) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = time.Now()
	if f.told++; f.told == 1 {
		f.first = f.last
	}
	f.ends[o.Session] = max(f.ends[o.Session], o.Epoch)
	return nil
}

// count returns how many ends were told so far. It is the test's clock: how quick the machine is, nobody knows.
func (f *funeral) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told
}

// next returns the first session of the child, from the first-th on, whose end was not told, or count.
func (f *funeral) next(first, count int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for first < count && f.ends[childSession(first)] != 0 {
		first++
	}
	return first
}

// overNow ends the leases of the child's sessions on the server, all at the same moment.
func overNow(t *testing.T, server *testserver.Server, n *Node) {
	client, l := connect(t, server), slices.Index(keyNames, "l")
	now, err := client.Time(ctx).Result()
	require.NoError(t, err)
	for _, keys := range n.store.(*redisStore).keys {
		leases := keys[l].(string)
		all, err := client.ZRange(ctx, leases, 0, -1).Result()
		require.NoError(t, err)
		var over []goredis.Z
		for _, member := range all {
			if strings.HasPrefix(member[len(token{}):], "child-") {
				over = append(over, goredis.Z{Score: float64(now.UnixMilli()), Member: member})
			}
		}
		require.NotEmpty(t, over)
		require.NoError(t, client.ZAddXX(ctx, leases, over...).Err())
	}
}

// massPatience is for what has to come, however slow the machine is.
const massPatience = 5 * time.Minute

// crowd is the sessions of the surviving nodes.
type crowd struct {
	renew    time.Duration
	dead     *funeral
	mu       sync.Mutex
	sessions []*Session
	back     int          // how many of them had been the dead node's: the first ones
	took     []int        // ends told during a registration, but for those before the first end
	failed   atomic.Int64 // registrations made again

	due     map[*Session]int      // ends told when a lease was first seen older than renew
	overdue int                   // most ends told from then on, until the lease was extended
	oldest  time.Duration         // that a lease was not extended
	lost    map[*Session]struct{} // the machine was too slow for their leases
	backlog int                   // most ends that a node had taken
}

// grow adds perSecond sessions until done is closed. Up to back of them, every second one, come
// back.
func (c *crowd) grow(nodes []*Node, perSecond, back int, done <-chan struct{}) error {
	var all errgroup.Group
	all.SetLimit(64)
	for i, began := 0, time.Now(); ; i++ {
		select {
		case <-done:
			return all.Wait()
		case <-time.After(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond)))):
		}
		id := fmt.Sprint("new-", i)
		if i%2 == 1 && c.back < back {
			id = childSession(c.back)
			c.back++
		}
		all.Go(func() error {
			began, told := time.Now(), c.dead.count()
			s, err := nodes[i%len(nodes)].Register(ctx, &conn{}, id, nil)
			for ; err != nil && time.Since(began) < massPatience; c.failed.Add(1) { // as a client does
				s, err = nodes[i%len(nodes)].Register(ctx, &conn{}, id, nil)
			}
			if err != nil {
				return fmt.Errorf("registering %s: %w", id, err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.sessions = append(c.sessions, s)
			if now := c.dead.count(); now > 0 {
				c.took = append(c.took, now-told)
			}
			return nil
		})
	}
}

// watch looks again and again how old leases are, until done is closed.
func (c *crowd) watch(nodes []*Node, done <-chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		case <-time.After(50 * time.Millisecond):
		}
		c.mu.Lock()
		sessions := c.sessions
		c.mu.Unlock()
		for _, s := range sessions {
			c.look(s)
		}
		for _, n := range nodes {
			n.teller.mu.Lock()
			c.backlog = max(c.backlog, len(n.teller.waiting)+n.teller.busy)
			n.teller.mu.Unlock()
		}
	}
}

// look looks at the lease of a session.
func (c *crowd) look(s *Session) {
	if _, ok := c.lost[s]; ok {
		return
	}
	age := s.node.elapsed() - time.Duration(s.good.Load())
	c.oldest = max(c.oldest, age)
	if age <= c.renew {
		delete(c.due, s)
		return
	}
	told := c.dead.count()
	if _, ok := c.due[s]; !ok {
		c.due[s] = told
	}
	c.overdue = max(c.overdue, told-c.due[s])
	if !s.Alive() {
		c.lost[s] = struct{}{}
	}
}

// While very many ends are told, sessions come and are extended, too. How much is told meanwhile is the same
// on a slow machine. Whoever starved would have to wait until nearly all are told. The leases of a killed process end
// within a renewal of each other; here nobody waits for that, and all end at once.
func TestManySessionsThatDieAtOnceStarveNobody(t *testing.T) {
	const count, perSecond = 50_000, 500
	dead := &funeral{ends: make(map[string]int64)}
	server := testserver.Redis(t)
	lease := massLease(t, server, count)
	r := newReal(t, server, 2, func(c *Config) {
		*c = longer(*c, lease)
		c.OnOffline = dead.tell
	})
	began := time.Now()
	dying := startChild(t, r.url, r.prefix, count, childLease+"="+lease.String())
	t.Logf("%d sessions were there after %v", count, time.Since(began))
	living := &crowd{renew: longer(Config{}, lease).Renew, dead: dead, due: make(map[*Session]int), lost: make(map[*Session]struct{})}
	living.sessions = append(fill(t, r.nodes[0], "live-0", 500), fill(t, r.nodes[1], "live-1", 500)...)
	dying.kill()
	killed := time.Now()
	overNow(t, server, r.nodes[0])
	done := make(chan struct{})
	var work errgroup.Group
	work.Go(func() error { return living.grow(r.nodes, perSecond, count/10, done) })
	work.Go(func() error { return living.watch(r.nodes, done) })
	next := count / 10
	require.Eventually(t, func() bool { next = dead.next(next, count); return next == count }, massPatience, 200*time.Millisecond, "all that stay away are told")
	close(done)
	require.NoError(t, work.Wait())
	dead.mu.Lock()
	t.Logf("%d were told from %v to %v after the kill, %.0f per second", dead.told, dead.first.Sub(killed), dead.last.Sub(killed),
		float64(dead.told)/dead.last.Sub(dead.first).Seconds())
	dead.mu.Unlock()
	next = living.back
	eventually(t, func() bool { next = dead.next(next, count); return next == count }, "all are told or come back")

	slices.Sort(living.took)
	median, longest := living.took[len(living.took)/2], living.took[len(living.took)-1]
	t.Logf("%d came back, and %d came or came back meanwhile, during %d ends at the median and %d at most, %d of them not at once; a lease was overdue during %d, and none was older than %v; %d ends waited at most; lost: %d",
		living.back, len(living.took), median, longest, living.failed.Load(), living.overdue, living.oldest, living.backlog, len(living.lost))
	require.Less(t, median, 2*tellBatch)
	require.Less(t, longest, count/3)
	require.Less(t, living.overdue, count/3)
	require.LessOrEqual(t, living.backlog, tellBatch+defaultSlots)
	dead.mu.Lock()
	defer dead.mu.Unlock()
	for _, s := range living.sessions {
		if s.Alive() {
			require.Less(t, dead.ends[s.ID()], s.Epoch(), s.ID())
		} else {
			living.lost[s] = struct{}{}
		}
		delete(dead.ends, s.ID())
	}
	require.Len(t, dead.ends, count-living.back, "of others than the dead")
	if len(living.lost) > 0 {
		t.Logf("too slow a machine for %d leases, so nobody knows how many are online", len(living.lost))
		return
	}
	online, err := r.nodes[0].Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, len(living.sessions), online)
}
