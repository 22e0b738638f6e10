package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// splitStore is on two servers. The server of the odd slots may hang.
type splitStore struct {
	*fake
	hangs *atomic.Bool
}

func (s splitStore) slots() int { return 16 }

func (s splitStore) odd(id string) bool { return slotAmong(id, s.slots())%2 == 1 }

// ask asks the answering server, and waits for the other one in vain.
func (s splitStore) ask(ctx context.Context, claims []claim, do func([]claim) ([]verdict, error)) ([]verdict, error) {
	var there []claim
	for _, c := range claims {
		if !s.odd(c.id) || !s.hangs.Load() {
			there = append(there, c)
		}
	}
	answers, err := do(there)
	if len(there) == len(claims) {
		return answers, err
	}
	verdicts := make([]verdict, len(claims))
	for i, c := range claims {
		if !s.odd(c.id) {
			verdicts[i], answers = answers[0], answers[1:]
		}
	}
	<-ctx.Done()
	return verdicts, errors.Join(err, context.Cause(ctx))
}

func (s splitStore) extend(ctx context.Context, claims []claim) ([]verdict, error) {
	return s.ask(ctx, claims, func(there []claim) ([]verdict, error) { return s.fake.extend(ctx, there) })
}

func (s splitStore) unregister(ctx context.Context, claims []claim, reason byte, resume time.Duration) ([]verdict, error) {
	return s.ask(ctx, claims, func(there []claim) ([]verdict, error) { return s.fake.unregister(ctx, there, reason, resume) })
}

func (s splitStore) register(ctx context.Context, asks []registration) ([]registered, error) {
	answers, items := make([]registered, len(asks)), make([]int, 0, len(asks))
	var there []registration
	for i, ask := range asks {
		if !s.odd(ask.id) || !s.hangs.Load() {
			there, items = append(there, ask), append(items, i)
		}
	}
	given, err := s.fake.register(ctx, there)
	for j, i := range items {
		answers[i] = given[j]
	}
	if len(there) < len(asks) {
		<-ctx.Done()
		err = errors.Join(err, context.Cause(ctx))
	}
	return answers, err
}

// All clients of a dead node come at once, for example.
func TestManyWhoComeToAServerThatHangsHoldUpNobodyWhoComesToAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const count = 10_000
		f := &fleetOf{shared: newShared(nodeConfig)}
		cfg := nodeConfig
		cfg.Node = "node"
		cfg = cfg.withDefaults()
		kept := splitStore{f.connect("node"), new(atomic.Bool)}
		n := nodeOn(t, cfg, kept)
		kept.hangs.Store(true)
		var all sync.WaitGroup
		for i := range count {
			all.Go(func() {
				id, began := fmt.Sprint(i), time.Now()
				_, err := n.Register(ctx, &conn{}, id, nil)
				if kept.odd(id) {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(began), 2*cfg.Timeout)
			})
		}
		all.Wait()
		require.Zero(t, n.arriving.Len())
	})
}

func TestAServerThatHangsHoldsUpNobodyOnAnother(t *testing.T) {
	for hangs, many := range map[time.Duration]bool{40 * time.Second: false, 2 * time.Minute: true} {
		t.Run(fmt.Sprintf("hangs=%v", hangs), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const closed = 20
				count, patience := 1000, 3*time.Second
				if many { // than fit into a few calls that wait in vain
					count, patience = 5*renewBatch/2, 30*time.Second
				}
				f := &fleetOf{shared: newShared(nodeConfig)}
				cfg := nodeConfig
				cfg.Node, cfg.Renew, cfg.Timeout = "node", 10*time.Second, patience
				cfg = cfg.withDefaults()
				require.NoError(t, cfg.check())
				kept := splitStore{f.connect("node"), new(atomic.Bool)}
				n := nodeOn(t, cfg, kept)
				sessions := fill(t, n, "s", count)
				time.Sleep(30 * time.Second)
				kept.hangs.Store(true)
				for _, s := range sessions[:closed] {
					s.Close()
				}
				time.Sleep(hangs)
				for i, s := range sessions {
					if kept.odd(s.ID()) {
						continue
					}
					var over bool
					f.set(func() { over = f.model.owners[s.ID()].state == stateEnded })
					if s.Alive() == (i < closed) || over != (i < closed) {
						t.Fatalf("session %d of a server that has always answered: alive %t, ended %t", i, s.Alive(), over)
					}
				}
				kept.hangs.Store(false)
				time.Sleep(time.Minute)
				lives := func(s *Session) bool { return hangs < nodeConfig.Lease/2 || !kept.odd(s.ID()) }
				for i, s := range sessions[closed:] {
					if s.Alive() != lives(s) {
						t.Fatalf("session %d: alive %t", closed+i, s.Alive())
					}
				}
			})
		})
	}
}

// fallingStore is a splitStore whose odd server begins to hang when it is to register a session again.
type fallingStore struct{ splitStore }

func (s fallingStore) register(ctx context.Context, asks []registration) ([]registered, error) {
	if asks[0].before != nil {
		s.hangs.Store(true)
	}
	return s.splitStore.register(ctx, asks)
}

func TestAServerThatHangsKeepsNoSessionOnAnotherFromBeingRegisteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fleetOf{shared: newShared(nodeConfig)}
		cfg := nodeConfig
		cfg.Node, cfg.Timeout = "node", 14*time.Second
		cfg = cfg.withDefaults()
		require.NoError(t, cfg.check())
		kept := fallingStore{splitStore{f.connect("node"), new(atomic.Bool)}}
		n := nodeOn(t, cfg, kept)
		sessions := fill(t, n, "s", renewBatch)
		time.Sleep(20 * time.Second)
		f.set(func() { f.model.lose() })
		kept.hear <- news{kind: newsAgain}
		time.Sleep(2 * time.Minute)
		require.True(t, kept.hangs.Load())
		for i, s := range sessions {
			if !kept.odd(s.ID()) && !s.Alive() {
				t.Fatalf("session %d of a server that has always answered: %v", i, s.Reason())
			}
		}
	})
}

// fullStore is on a full server, and counts its calls.
type fullStore struct {
	*fake
	full *atomic.Bool
	asks *atomic.Int32
}

func (s fullStore) register(ctx context.Context, asks []registration) ([]registered, error) {
	if s.full.Load() {
		s.asks.Add(1)
		return make([]registered, len(asks)), ErrFull
	}
	return s.fake.register(ctx, asks)
}

func (s fullStore) unregister(ctx context.Context, claims []claim, reason byte, resume time.Duration) ([]verdict, error) {
	if s.full.Load() {
		s.asks.Add(1)
		return make([]verdict, len(claims)), ErrFull
	}
	return s.fake.unregister(ctx, claims, reason, resume)
}

// onFullStore returns a node on such a server, while there is room, with sessions.
func onFullStore(t *testing.T, f *fleetOf, count int) (kept fullStore, n *Node, sessions []*Session) {
	kept = fullStore{f.connect("node"), new(atomic.Bool), new(atomic.Int32)}
	n = nodeOn(t, nodeConfig.withDefaults(), kept)
	return kept, n, fill(t, n, "s", count)
}

func TestAServerThatIsFullIsNotAskedAllTheTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const count, closed = renewBatch + 1000, 3 * batchSize
		f := &fleetOf{shared: newShared(nodeConfig)}
		kept, n, sessions := onFullStore(t, f, count+closed)
		f.set(func() { f.model.lose(); f.model.server = "b" })
		kept.full.Store(true)
		for _, s := range sessions[count:] {
			s.Close()
		}
		time.Sleep(time.Minute)
		looks, batches := int32(time.Minute/n.tick()), int32(count/batchSize+1+2*closed/batchSize)
		require.Less(t, kept.asks.Load(), looks*batches)
		kept.full.Store(false)
		time.Sleep(2 * time.Second) // a few ticks
		require.Equal(t, count, n.Len())
		allAlive(t, sessions[:count])
		require.Zero(t, n.renewer.unsent())
	})
}

func TestAMasterOfAClusterThatHangsHoldsUpNobodyOnAnother(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	r := newReal(t, cluster.Nodes[0], 1, nil)
	n := r.nodes[0]
	sessions := fill(t, n, "s", 300)
	kept := n.store.(*redisStore)
	on := func(id string) string { // the address of its master
		client, err := kept.redis.ForKey(ctx, kept.keys[n.slotOf(id)][0].(string))
		require.NoError(t, err)
		return client.Options().Addr
	}
	hangs, masters := cluster.Nodes[1], make([]string, len(sessions))
	for i, s := range sessions {
		masters[i] = on(s.ID())
	}
	require.Contains(t, masters, hangs.Addr)
	hangs.Pause(t)
	eventually(t, func() bool {
		for i, s := range sessions {
			if masters[i] == hangs.Addr && s.Reason() != ReasonLost {
				return false
			}
		}
		return true
	}, "those whose master hangs are lost")
	renewals := n.Stats().Renewals
	eventually(t, func() bool { return n.Stats().Renewals > renewals+600 }, "the others are extended")
	for i, s := range sessions {
		require.Equal(t, masters[i] != hangs.Addr, s.Alive())
	}
	requireRegistrations(t, n, func(id string) bool { return on(id) != hangs.Addr })
	hangs.Continue(t)
	eventually(t, func() bool {
		for i, s := range sessions {
			if !s.Alive() {
				anew, err := n.Register(ctx, &conn{}, s.ID(), nil)
				if err != nil {
					return false
				}
				sessions[i] = anew
			}
		}
		return true
	}, "they are back")
	renewals = n.Stats().Renewals
	eventually(t, func() bool { return n.Stats().Renewals > renewals+600 }, "all are extended")
	allAlive(t, sessions)
}

// requireRegistrations requires sessions of answering servers to be registered one after the other,
// while other callers register sessions of a silent server.
func requireRegistrations(t *testing.T, n *Node, answers func(id string) bool) {
	const count = 100
	var stop atomic.Bool
	var failed atomic.Int32
	var asking sync.WaitGroup
	next := func(name string, wanted bool) func() string {
		i := 0
		return func() string {
			for {
				i++
				if id := fmt.Sprint(name, "-", i); answers(id) == wanted {
					return id
				}
			}
		}
	}
	for worker := range 4 {
		id := next(fmt.Sprint("hangs-", worker), false)
		asking.Go(func() {
			for !stop.Load() {
				if _, err := n.Register(ctx, &conn{}, id(), nil); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	eventually(t, func() bool { return failed.Load() > 0 }, "a registration that is not answered")
	before, id := failed.Load(), next("answers", true)
	for range count {
		s, err := n.Register(ctx, &conn{}, id(), nil)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	require.Less(t, failed.Load()-before, int32(count), "they did not wait for each other")
	stop.Store(true)
	asking.Wait()
}

// One lane hears of sessions lost by Redis and registers them again. Meanwhile all are to be extended
// once more, and their slots belong to the other lane by now. With their old tokens they would be
// taken for somebody else's.
func TestSessionsThatAreRegisteredAgainAreNotAskedForMeanwhile(t *testing.T) {
	for _, cfg := range []Config{nodeConfig, beatConfig} {
		t.Run(fmt.Sprintf("NodeLease=%v", cfg.NodeLease), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 1, cfg)
				n := f.nodes[0]
				s, c := register(t, n, "a")
				f.set(func() { f.away = true })
				n.recheck(n.everySlot())
				time.Sleep(time.Second)
				f.set(func() {
					f.away, f.fakes[0].slow = false, 200*time.Millisecond
					f.model.lose()
				})
				for again := false; !again; time.Sleep(time.Millisecond) {
					f.set(func() { _, again = f.model.owners["a"] })
				}
				renewals := n.Stats().Renewals
				f.fakes[0].hear <- news{kind: newsAgain}
				time.Sleep(time.Second)
				require.Greater(t, n.Stats().Renewals, renewals+1, "it is looked at when it has its new token")
				long(time.Hour)
				require.True(t, s.Alive())
				require.Zero(t, c.closed.Load())
				require.Empty(t, f.diary.offlines())
			})
		})
	}
}

func TestAServerThatHangsKeepsNoSessionOnAnotherFromBeingDetached(t *testing.T) {
	for what, end := range map[string]func(n *Node) error{
		"drain": func(n *Node) error {
			limit, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return n.Drain(limit)
		},
		"close": func(n *Node) error {
			time.Sleep(40 * time.Second) // so that it knows
			return errors.Join(n.Close(), errAway)
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const count = 5 * batchSize
				f := &fleetOf{shared: newShared(nodeConfig)}
				cfg := nodeConfig
				cfg.Node = "node"
				kept := splitStore{f.connect("node"), new(atomic.Bool)}
				n := nodeOn(t, cfg.withDefaults(), kept)
				for i := range count {
					register(t, n, fmt.Sprint(i))
				}
				kept.hangs.Store(true)
				require.Error(t, end(n))
				for i := range count {
					f.set(func() {
						id := fmt.Sprint(i)
						require.Equal(t, !kept.odd(id), f.model.owners[id].state == stateDetached, id)
					})
				}
			})
		})
	}
}

// Each end makes the node tell Redis, but not retry the failed ends.
func TestAServerThatFailsIsNotAskedByEachWhoLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const count = 10_000
		kept, n, sessions := onFullStore(t, &fleetOf{shared: newShared(nodeConfig)}, count)
		kept.full.Store(true)
		began := time.Now()
		for _, s := range sessions {
			s.Close()
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, int(kept.asks.Load()), int(time.Since(began)/n.tick())+2)
		kept.full.Store(false)
		time.Sleep(count/batchSize*n.tick() + time.Second)
		require.Zero(t, n.renewer.unsent())
	})
}
