package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// realFleet is some nodes on a Redis server, and what they were told.
type realFleet struct {
	url, prefix string
	nodes       []*Node
	diary       diary
}

func newReal(t testing.TB, server *testserver.Server, count int, change func(*Config)) *realFleet {
	return newRealBy(t, server, count, change, func(cfg Config) (*Node, error) { return Open(ctx, server.URL, cfg) })
}

// newRealBy is newReal with another way to the server.
func newRealBy(t testing.TB, server *testserver.Server, count int, change func(*Config), open func(Config) (*Node, error)) *realFleet {
	r := &realFleet{url: server.URL, prefix: prefix()}
	for i := range count {
		cfg := r.diary.config(quick(r.prefix, fmt.Sprint("node-", i)))
		if change != nil {
			change(&cfg)
		}
		n, err := open(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, n.Close()) })
		r.nodes = append(r.nodes, n)
	}
	return r
}

// fill registers sessions on a node, many at the same time.
func fill(t testing.TB, n *Node, name string, count int) []*Session {
	sessions, err := registerAll(n, name, count, 16)
	require.NoError(t, err)
	return sessions
}

// comeBack registers a session as a client does: again and again. A busy machine may take longer than
// Config.Timeout. With ReasonMoved, somebody else was faster.
func comeBack(n *Node, id string) (s *Session, err error) {
	for began := time.Now(); time.Since(began) < time.Minute; {
		if s, err = n.Register(ctx, &conn{}, id, nil); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	return s, err
}

func registerAll(n *Node, name string, count, workers int) ([]*Session, error) {
	sessions := make([]*Session, count)
	var all errgroup.Group
	for worker := range workers {
		all.Go(func() (err error) {
			for i := worker; i < count && err == nil; i += workers {
				sessions[i], err = comeBack(n, fmt.Sprint(name, "-", i))
			}
			return err
		})
	}
	return sessions, all.Wait()
}

func allAlive(t testing.TB, sessions []*Session) {
	t.Helper()
	for _, s := range sessions {
		if !s.Alive() {
			t.Fatalf("%s: %v", s.ID(), s.Reason())
		}
	}
}

// by returns the ends told, by session: the highest epoch of each.
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
	killChild(t, nil)
}

func TestAKilledNodeWithALeaseTakesItsSessionsWithIt(t *testing.T) {
	t.Parallel()
	killChild(t, func(c *Config) {
		*c = beating(*c)
		c.Slots = 1 // so that its sessions are looked for in several steps
	}, childBeats+"=1")
}

// killChild kills a node. On a machine without time for the others, it tries again.
func killChild(t *testing.T, how func(*Config), env ...string) {
	for range 5 {
		server := testserver.SharedRedis(t)
		if killChildOf(t, server, newReal(t, server, 2, how), env...) {
			return
		}
	}
	t.Fatal("this machine is too busy to tell")
}

// killChildOf reports false if a node has lost sessions while Redis took too long for its PING.
func killChildOf(t *testing.T, server *testserver.Server, r *realFleet, env ...string) bool {
	const count = 2000
	slowest := pings(t, server)
	dying := startChild(t, r.url, r.prefix, count, env...)
	live := append(fill(t, r.nodes[0], "live-0", 500), fill(t, r.nodes[1], "live-1", 500)...)
	dying.kill()
	killed := time.Now()
	// A third comes back, all over the time at which leases end.
	back := make([]*Session, count/3)
	var all errgroup.Group
	for worker := range 20 {
		all.Go(func() (err error) {
			for i := worker; i < len(back) && err == nil; i += 20 {
				time.Sleep(time.Duration(rand.Int64N(int64(quickLease / 15))))
				back[i], err = comeBack(r.nodes[i%2], childSession(i))
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
	lost := func(s *Session) bool { return s.Reason() == ReasonLost }
	if took := slowest(); took > time.Second && slices.ContainsFunc(append(live, back...), lost) {
		t.Log("Redis took", took, "for a PING")
		return false
	}
	allAlive(t, back)
	allAlive(t, live)
	ends := r.diary.by()
	for i, s := range back {
		require.Less(t, ends[childSession(i)].Epoch, s.Epoch(), "the new session is told to be offline")
	}
	for id, end := range ends {
		require.Equal(t, ReasonExpired, end.Reason, id)
		require.Equal(t, "child", end.Node, id)
	}
	online, err := r.nodes[0].Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, len(live)+len(back), online)
	return true
}

// pings asks a server again and again, as long as the test runs. slowest returns the longest time that it took.
func pings(t *testing.T, server *testserver.Server) (slowest func() time.Duration) {
	client := connect(t, server)
	var longest atomic.Int64
	asking, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	asked.Go(func() {
		for asking.Err() == nil {
			begun := time.Now()
			_ = client.Ping(ctx).Err()
			longest.Store(max(longest.Load(), int64(time.Since(begun))))
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); asked.Wait() })
	return func() time.Duration { return time.Duration(longest.Load()) }
}

func TestRedisThatStandsStillForLongerThanALeaseHasNobodyOffline(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	r := newReal(t, server, 2, func(c *Config) { c.Outlive = true })
	sessions := append(fill(t, r.nodes[0], "a", 300), fill(t, r.nodes[1], "b", 300)...)
	server.Pause(t)
	time.Sleep(quickLease * 3 / 2)
	server.Continue(t)
	time.Sleep(quickLease + time.Second)
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
	eventually(t, func() bool { return sessions[0].Epoch() > epoch }, "its node knows the epoch that Redis has given it")
	require.Empty(t, r.diary.offlines())
	// Nobody who comes then decides that there are other slots.
	layout, client := r.nodes[0].store.(*redisStore).layout, connect(t, server)
	eventually(t, func() bool { return client.HGet(ctx, layout, "slots").Val() == "16" }, "the slots are known again")
	cfg := quick(r.prefix, "other")
	cfg.Slots = 8
	_, err := Open(ctx, r.url, cfg)
	require.ErrorContains(t, err, "Slots 8, must be 16")
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
				s, err := comeBack(r.nodes[(hopper+i)%3], "hopper")
				if errors.Is(err, ReasonMoved) {
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
	useFleet(t, testserver.SharedRedis(t), nil)
}

func TestKickDrainAndCountOnACluster(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0)
	for name, change := range map[string]func(*Config){"sessions": nil, "nodes": func(c *Config) { *c = beating(*c) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			useFleet(t, cluster.Nodes[0], change)
		})
	}
}

// useFleet does everything possible with a fleet of two.
func useFleet(t *testing.T, server *testserver.Server, change func(*Config)) {
	r := newReal(t, server, 2, change)
	sessions := fill(t, r.nodes[0], "a", 100)
	fill(t, r.nodes[1], "b", 100)
	online, err := r.nodes[0].Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 200, online)
	where, err := r.nodes[1].Lookup(ctx, "a-7")
	require.NoError(t, err)
	require.Equal(t, "node-0", where.Node)
	require.WithinDuration(t, time.Now(), where.Since, time.Minute)
	all, err := r.nodes[1].LookupAll(ctx, []string{"b-7", "nobody", "a-7", "a-7"})
	require.NoError(t, err)
	require.Equal(t, []string{"node-1", "", "node-0", "node-0"}, []string{all[0].Node, all[1].Node, all[2].Node, all[3].Node})
	require.Equal(t, where, all[2])
	require.Equal(t, Presence{Session: "nobody"}, all[1])
	require.NoError(t, r.nodes[1].Kick(ctx, "a-7"))
	eventually(t, func() bool { return sessions[7].Reason() == ReasonKicked }, "it is kicked")
	eventually(t, func() bool { return r.diary.by()["a-7"].Reason == ReasonKicked }, "it is told")
	require.NoError(t, r.nodes[0].Drain(ctx))
	var returning errgroup.Group // within the window
	returning.SetLimit(16)
	for i := range 100 {
		if i != 7 {
			returning.Go(func() error {
				_, err := comeBack(r.nodes[1], fmt.Sprint("a-", i))
				return err
			})
		}
	}
	require.NoError(t, returning.Wait())
	time.Sleep(quickNodeLease + time.Second) // more than the window
	require.Len(t, r.diary.by(), 1)
	require.Equal(t, 199, r.nodes[1].Len())
}

func TestTheNumberOfSlotsIsForEver(t *testing.T) {
	t.Parallel()
	server := testserver.SharedRedis(t)
	r := newReal(t, server, 1, func(c *Config) { c.Slots = 4 })
	cfg := quick(r.prefix, "other")
	n, err := Open(ctx, r.url, cfg) // takes what there is
	require.NoError(t, err)
	fill(t, r.nodes[0], "a", 10)
	online, err := n.Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 10, online)
	require.NoError(t, n.Close())
	cfg.Slots = 8
	_, err = Open(ctx, r.url, cfg)
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
	time.Sleep(quickLease + time.Second)
	allAlive(t, sessions)
	sessions[0].Close()
	eventually(t, func() bool { return len(r.diary.by()) == 1 }, "ends are told")
}

// A node that comes after all is lost, and does not say how many slots there are, may be faster than
// those that know.
func TestANodeWhoseSlotsAreNotThoseOfOthersStopsServing(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	r := newReal(t, server, 1, func(c *Config) { c.Slots, c.Outlive = 64, true })
	first := r.nodes[0]
	left, c := register(t, first, "a")
	var second *Node
	for second == nil || second.store.slots() == 64 { // until it was faster
		if second != nil {
			require.NoError(t, second.Close())
		}
		require.NoError(t, connect(t, server).FlushAll(ctx).Err())
		var err error
		second, err = Open(ctx, r.url, quick(r.prefix, "second"))
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, second.Close()) })
	s, _ := register(t, second, "a")
	eventually(t, func() bool { return left.Reason() == ReasonLost && c.closed.Load() == 1 }, "it does not serve any more")
	_, err := first.Register(ctx, &conn{}, "b", nil)
	require.ErrorContains(t, err, "Slots 64, must be 16")
	time.Sleep(quickLease + time.Second) // more than a lease
	require.Empty(t, r.diary.offlines())
	require.True(t, s.Alive())
}

// What a user of Redis may not publish, the next extension finds: what was written stays, and is answered.
func TestAUserWhoMayNotPublishIsAnswered(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	admin := connect(t, server)
	require.NoError(t, admin.Do(ctx, "ACL", "SETUSER", "gateway", "on", ">secret", "~*", "resetchannels", "+@all").Err())
	url, prefix := "redis://gateway:secret@"+server.Addr, prefix()
	_, err := Open(ctx, url, quick(prefix, "first"))
	require.ErrorContains(t, err, "NOPERM", "it would not hear what it is told")
	first := openStore(t, url, quick(prefix, "first"), incarnation{1})
	second := openStore(t, url, quick(prefix, "second"), incarnation{2})
	had, err := first.register(ctx, []registration{{id: "a"}})
	require.NoError(t, err)
	has, err := second.register(ctx, []registration{{id: "a"}})
	require.NoError(t, err)
	require.EqualValues(t, kindMoved, has[0].kind)
	there, err := first.kick(ctx, "a")
	require.NoError(t, err)
	require.True(t, there)
	verdicts, err := first.extend(ctx, []claim{{"a", had[0].token}, {"a", has[0].token}})
	require.NoError(t, err)
	require.Equal(t, []verdict{superseded, kicked}, verdicts)
}

// docs/redis.md says which commands a user of Redis needs.
func TestAUserWithTheCommandsThatAreNeededHasThemAll(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/redis.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ACL SETUSER gateway .*$`).FindString(string(page))
	prefix := prefix()
	var rule []any
	for _, word := range strings.Fields(strings.ReplaceAll(line, "fleet:*", prefix+":*")) {
		rule = append(rule, word)
	}
	server := testserver.Redis(t)
	admin := connect(t, server)
	require.NoError(t, admin.Do(ctx, rule...).Err())

	var diary diary
	url := "redis://gateway:secret@" + server.Addr
	first, err := Open(ctx, url, diary.config(beating(quick(prefix, "first"))))
	require.NoError(t, err)
	defer first.Close()
	second, err := Open(ctx, url, diary.config(beating(quick(prefix, "second"))))
	require.NoError(t, err)
	defer second.Close()
	register(t, first, "moves")
	register(t, second, "moves")
	register(t, first, "kicked")
	require.NoError(t, second.Kick(ctx, "kicked"))
	s, _ := register(t, first, "closed")
	require.NoError(t, s.Close())
	eventually(t, func() bool { return len(diary.offlines()) >= 2 && first.Len() == 0 }, "ends are told, and one has moved")
	require.NoError(t, admin.FlushAll(ctx).Err())
	eventually(t, func() bool {
		return slices.ContainsFunc(diary.onlines(), func(o Online) bool { return o.Session == "moves" && o.Again })
	}, "it is registered again")
	require.NoError(t, second.Drain(ctx))
	count, err := first.Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, count)
	refused, err := admin.ACLLog(ctx, 1).Result()
	require.NoError(t, err)
	require.Empty(t, refused)
}

func TestClientsAndServersThatWouldLoseSessionsAreRefused(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	admin := connect(t, server)
	require.NoError(t, admin.Do(ctx, "ACL", "SETUSER", "gateway", "on", ">secret", "~*", "&*", "+@all", "-info").Err())
	good := goredis.Options{Addr: server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true}
	cluster := testserver.RedisCluster(t, 3, 0).Nodes[0]
	for what, change := range map[string]func(*goredis.Options){
		"ContextTimeoutEnabled false of the client, must be true": func(o *goredis.Options) { o.ContextTimeoutEnabled = false },
		"MaxRetries 3 of the client, must be -1":                  func(o *goredis.Options) { o.MaxRetries = 3 },
		"the client must be a *redis.ClusterClient":               func(o *goredis.Options) { o.Addr = cluster.Addr },
		"asking the server what it is: NOPERM":                    func(o *goredis.Options) { o.Username, o.Password = "gateway", "secret" },
		"must be noeviction: sessions would be lost": func(*goredis.Options) {
			require.NoError(t, admin.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
			t.Cleanup(func() { require.NoError(t, admin.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err()) })
		},
	} {
		t.Run(what, func(t *testing.T) {
			options := good
			change(&options)
			client := goredis.NewClient(&options)
			defer client.Close()
			_, err := New(ctx, client, Config{Node: "n", Prefix: prefix()})
			require.ErrorContains(t, err, what)
		})
	}
	for what, client := range map[string]goredis.UniversalClient{
		"client is a <nil>, must be a *redis.Client or a *redis.ClusterClient": nil,
		"client is a nil *redis.Client":                                        (*goredis.Client)(nil),
		"client is a nil *redis.ClusterClient":                                 (*goredis.ClusterClient)(nil),
		"client is a *redis.Ring, must be":                                     (*goredis.Ring)(nil),
	} {
		_, err := New(ctx, client, Config{Node: "n"})
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, what)
	}
}

func TestOnlyAClientOfOpenEndsWithItsNode(t *testing.T) {
	t.Parallel()
	server := testserver.SharedRedis(t)
	ours := func() int {
		list, err := connect(t, server).ClientList(ctx).Result()
		require.NoError(t, err)
		return strings.Count(list, "name="+t.Name())
	}
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	mine, err := New(ctx, client, quick(prefix(), "mine"))
	require.NoError(t, err)
	require.NoError(t, mine.Close())
	require.NoError(t, client.Ping(ctx).Err())

	own, err := Open(ctx, server.URL+"?client_name="+t.Name(), quick(prefix(), "own"))
	require.NoError(t, err)
	require.Positive(t, ours())
	require.NoError(t, own.Close())
	eventually(t, func() bool { return ours() == 0 }, "its connections are closed")
}

// openStore returns the store of a node that does nothing by itself. The end of the test closes it.
func openStore(t testing.TB, url string, cfg Config, by incarnation) *redisStore {
	t.Helper()
	redis, err := redisrun.Open(ctx, url, names)
	require.NoError(t, err)
	s, err := newRedisStore(ctx, redis, cfg.withDefaults(), by, serverScripts)
	require.NoError(t, err)
	t.Cleanup(func() { s.close() })
	return s
}
