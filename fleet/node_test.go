package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

var ctx = context.Background()

// conn is a connection of the tests: it only knows whether it is closed.
type conn struct{ closed atomic.Int32 }

func (c *conn) Close() error { c.closed.Add(1); return nil }

// diary is what functions of the user's were told.
type diary struct {
	mu      sync.Mutex
	online  []Online
	offline []Offline
	ends    map[string]Reason
	fails   int // how many times OnOffline fails from now on
}

func (d *diary) config(cfg Config) Config {
	d.ends = make(map[string]Reason)
	cfg.OnOnline = func(o Online) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.online = append(d.online, o)
	}
	cfg.OnOffline = func(_ context.Context, o Offline) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.offline = append(d.offline, o)
		if d.fails--; d.fails >= 0 {
			return errors.New("not now")
		}
		return nil
	}
	cfg.OnEnd = func(s *Session, reason Reason) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ends[s.ID()] = reason
	}
	return cfg
}

func (d *diary) offlines() []Offline {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Offline(nil), d.offline...)
}

func (d *diary) onlines() []Online {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Online(nil), d.online...)
}

func (d *diary) end(id string) Reason {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ends[id]
}

var nodeConfig = Config{Lease: 90 * time.Second, Logger: slog.New(slog.DiscardHandler)}

// fleetOf is some nodes on one model, in a bubble.
type fleetOf struct {
	*shared
	nodes []*Node
	fakes []*fake
	diary diary
}

func newFleet(t *testing.T, count int, cfg Config) *fleetOf {
	f := &fleetOf{shared: newShared(cfg)}
	cfg = f.diary.config(cfg)
	for i := range count {
		f.add(t, fmt.Sprint("node-", i), cfg)
	}
	return f
}

func (f *fleetOf) add(t *testing.T, name string, cfg Config) *Node {
	cfg.Node = name
	cfg = cfg.withDefaults()
	require.NoError(t, cfg.check())
	kept := f.connect(name)
	kept.rules = rulesOf(cfg)
	n := nodeOn(t, cfg, kept)
	f.nodes, f.fakes = append(f.nodes, n), append(f.fakes, kept)
	return n
}

// nodeOn returns a node on a store, until the test ends. cfg must have its defaults.
func nodeOn(t *testing.T, cfg Config, on store) *Node {
	t.Helper()
	n, err := newNode(cfg, on)
	require.NoError(t, err)
	t.Cleanup(func() { n.Close() })
	return n
}

// kept is how many sessions something is kept of.
func (f *fleetOf) kept() (count int) {
	f.set(func() { count = len(f.model.owners) + len(f.model.ends) })
	return count
}

func register(t testing.TB, n *Node, id string) (*Session, *conn) {
	t.Helper()
	c := &conn{}
	s, err := n.Register(ctx, c, id, []byte("meta of "+id))
	require.NoError(t, err)
	return s, c
}

// bubble runs a test in fake time; what it started must have ended with it.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// long lets a long fake time go by. The effects of a test's deeds come within five minutes, and nothing is to happen
// afterwards. With the race detector twenty minutes are enough of that; scripts/models has all without it.
func long(d time.Duration) {
	if testmain.Race {
		d = min(d, 20*time.Minute)
	}
	exactly(d)
}

// exactly lets just so much fake time go by, of which renewals are counted. After the effects of a test's deeds the nodes
// are idle, and one processor is enough: several take twice the time to wake each other up at each tick.
func exactly(d time.Duration) {
	const effects = 5 * time.Minute
	time.Sleep(effects)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	time.Sleep(d - effects)
}

func TestASessionThatIsServedIsExtendedForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		s, c := register(t, f.nodes[0], "a")
		exactly(2 * time.Hour)
		require.True(t, s.Alive())
		require.Zero(t, c.closed.Load())
		require.Empty(t, f.diary.offlines())
		where, err := f.nodes[1].Lookup(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, "node-0", where.Node)
		require.Equal(t, s.Epoch(), where.Epoch)
		require.Equal(t, "meta of a", string(where.Meta))
		// Each renewal comes up to a seventh earlier, and none twice.
		require.InDelta(t, 2*60*2, f.nodes[0].Stats().Renewals, 60)
	})
}

func TestASessionThatIsClosedIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		s, c := register(t, f.nodes[0], "a")
		s.Close()
		s.Close()
		long(time.Hour)
		require.Len(t, f.diary.offlines(), 1)
		end := f.diary.offlines()[0]
		require.Equal(t, ReasonClosed, end.Reason)
		require.Equal(t, s.Epoch(), end.Epoch)
		require.Equal(t, "meta of a", string(end.Meta))
		require.Zero(t, c.closed.Load(), "the connection is the program's")
		_, err := f.nodes[1].Lookup(ctx, "a")
		require.ErrorIs(t, err, ErrNotFound)
		require.Zero(t, f.kept())
	})
}

func TestASessionThatManyEndAtOnceIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const sessions = 200
		f := newFleet(t, 1, nodeConfig)
		for i := range sessions {
			s, _ := register(t, f.nodes[0], fmt.Sprint("session-", i))
			var ended atomic.Int32
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if f.nodes[0].release(s, ReasonClosed, leaveEnd) {
						ended.Add(1)
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 1, ended.Load())
		}
		long(time.Hour)
		require.Len(t, f.diary.offlines(), sessions)
		require.Zero(t, f.kept())
	})
}

// dies kills the first node, with its 100 sessions. Its first end must be told later than least, and
// all by most. dies returns the time of death.
func (f *fleetOf) dies(t *testing.T, least, most time.Duration) (began time.Time) {
	t.Helper()
	f.set(func() { f.fakes[0].cut = true })
	began = time.Now()
	for len(f.diary.offlines()) == 0 {
		time.Sleep(100 * time.Millisecond)
	}
	require.Greater(t, time.Since(began), least)
	time.Sleep(most - time.Since(began))
	require.Len(t, f.diary.offlines(), 100)
	for _, end := range f.diary.offlines() {
		require.Equal(t, "node-0", end.Node)
		require.Equal(t, ReasonExpired, end.Reason)
	}
	return began
}

func TestADeadNodesSessionsEndWithinALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3, nodeConfig)
		for i := range 300 {
			register(t, f.nodes[i%3], fmt.Sprint("session-", i))
		}
		long(10 * time.Minute)
		f.dies(t, 59*time.Second, 91*time.Second) // a lease less a renewal
		long(time.Hour)
		require.Len(t, f.diary.offlines(), 100)
		require.Equal(t, 200, f.nodes[1].Len()+f.nodes[2].Len())
	})
}

func TestANodeThatIsCutOffStopsServingBeforeItsSessionsAreOffline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		s, c := register(t, f.nodes[0], "a")
		time.Sleep(time.Minute)
		f.set(func() { f.fakes[0].cut = true })
		for s.Alive() {
			require.Empty(t, f.diary.offlines())
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 1, c.closed.Load())
		require.Equal(t, ReasonLost, s.Reason())
		require.Equal(t, ReasonLost, f.diary.end("a"))
		time.Sleep(time.Minute)
		require.Len(t, f.diary.offlines(), 1)
		require.Zero(t, f.nodes[0].Len())
	})
}

func TestConnectionsHaveAHundredthOfALeaseToBeClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fleetOf{shared: newShared(nodeConfig)}
		cfg := nodeConfig
		left := make(chan time.Duration, 100)
		cfg.OnEnd = func(s *Session, _ Reason) {
			left <- time.Duration(s.good.Load()) + cfg.Lease - s.node.elapsed()
		}
		n := f.add(t, "node", cfg)
		for i := range 100 {
			register(t, n, fmt.Sprint("session-", i))
			time.Sleep(317 * time.Millisecond)
		}
		f.set(func() { f.fakes[0].cut = true })
		time.Sleep(cfg.Lease)
		require.Len(t, left, 100)
		for range 100 {
			l := <-left
			require.GreaterOrEqual(t, l, cfg.Lease/100)
			require.LessOrEqual(t, l, cfg.Lease/50)
		}
	})
}

func TestANodeThatMayOutliveItsLeasesIsFencedWhenItIsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := nodeConfig
		cfg.Outlive = true
		f := newFleet(t, 2, cfg)
		s, c := register(t, f.nodes[0], "a")
		moved, c2 := register(t, f.nodes[0], "b")
		f.set(func() { f.fakes[0].cut = true })
		time.Sleep(5 * time.Minute)
		require.False(t, s.Alive())
		require.Zero(t, c.closed.Load())
		require.Len(t, f.diary.offlines(), 2)
		anew, _ := register(t, f.nodes[1], "b")
		f.set(func() { f.fakes[0].cut = false })
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, c.closed.Load())
		require.EqualValues(t, 1, c2.closed.Load())
		require.Equal(t, ReasonExpired, s.Reason())
		require.Equal(t, ReasonMoved, moved.Reason())
		require.True(t, anew.Alive())
		require.Len(t, f.diary.offlines(), 2)
	})
}

func TestASessionThatIsRegisteredElsewhereMoves(t *testing.T) {
	for _, hears := range []bool{true, false} {
		t.Run(fmt.Sprintf("hears=%v", hears), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 2, nodeConfig)
				old, c := register(t, f.nodes[0], "a")
				if !hears { // the message is lost
					f.set(func() { f.fakes[0].node = "nobody" })
				}
				anew, _ := register(t, f.nodes[1], "a")
				if hears {
					time.Sleep(time.Second)
				} else {
					time.Sleep(31 * time.Second)
				}
				require.EqualValues(t, 1, c.closed.Load())
				require.Equal(t, ReasonMoved, old.Reason())
				require.Greater(t, anew.Epoch(), old.Epoch())
				require.False(t, old.Moved() || old.Resumed() || anew.Resumed())
				require.True(t, anew.Moved())
				require.Equal(t, "node-0", f.diary.onlines()[1].Before)
				old.Close() // comes late, and harms nobody
				long(time.Hour)
				require.True(t, anew.Alive())
				require.Empty(t, f.diary.offlines())
			})
		})
	}
}

func TestASessionThatIsRegisteredAgainOnTheSameNodeMoves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		old, c := register(t, f.nodes[0], "a")
		anew, _ := register(t, f.nodes[0], "a")
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, c.closed.Load())
		require.Equal(t, ReasonMoved, old.Reason())
		require.True(t, anew.Alive())
		require.Equal(t, 1, f.nodes[0].Len())
		require.Empty(t, f.diary.offlines())
	})
}

func TestRedisThatIsAwayForLongerThanALeaseHasNobodyOffline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := nodeConfig
		cfg.Outlive = true
		f := newFleet(t, 2, cfg)
		for i := range 100 {
			register(t, f.nodes[i%2], fmt.Sprint("session-", i))
		}
		time.Sleep(time.Minute)
		f.set(func() { f.away = true })
		long(10 * time.Minute)
		f.set(func() { f.away = false })
		long(time.Hour)
		require.Empty(t, f.diary.offlines())
		require.Equal(t, 100, f.nodes[0].Len()+f.nodes[1].Len())
		require.Positive(t, f.nodes[0].Stats().Held+f.nodes[1].Stats().Held)
	})
}

func TestAnOutageAsLongAsARenewalIsNoneToSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		for i := range 100 {
			register(t, f.nodes[i%2], fmt.Sprint("session-", i))
		}
		for range 20 {
			time.Sleep(71 * time.Second)
			f.set(func() { f.away = true })
			time.Sleep(30 * time.Second)
			f.set(func() { f.away = false })
		}
		require.Empty(t, f.diary.offlines())
		require.Equal(t, 100, f.nodes[0].Len()+f.nodes[1].Len())
	})
}

func TestRedisThatHasLostItsDataIsToldOfAllSessionsAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		s, _ := register(t, f.nodes[0], "a")
		moves, old := register(t, f.nodes[0], "b")
		before := s.Epoch()
		time.Sleep(time.Second)
		f.set(func() { f.model.lose(); f.model.server = "b" })
		anew, _ := register(t, f.nodes[1], "b") // while nobody knows it
		time.Sleep(time.Minute)
		require.True(t, s.Alive())
		require.Greater(t, s.Epoch(), before)
		require.Equal(t, ReasonMoved, moves.Reason())
		require.EqualValues(t, 1, old.closed.Load())
		require.True(t, anew.Alive())
		again := f.diary.onlines()[3]
		require.True(t, again.Again)
		require.Equal(t, s.Epoch(), again.Epoch)
		long(time.Hour)
		require.Empty(t, f.diary.offlines())
	})
}

func TestARollingRestartIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3, nodeConfig)
		for i := range 90 {
			register(t, f.nodes[i%3], fmt.Sprint("session-", i))
		}
		for i := range 3 {
			old := f.nodes[0]
			var ids []string
			for _, s := range old.in(old.everySlot()) {
				ids = append(ids, s.ID())
			}
			require.NoError(t, old.Drain(ctx))
			require.Zero(t, old.Len())
			_, err := old.Register(ctx, &conn{}, "late", nil)
			require.ErrorIs(t, err, ErrDraining)
			require.NoError(t, old.Close())
			f.nodes, f.fakes = f.nodes[1:], f.fakes[1:]
			f.add(t, fmt.Sprint("new-", i), f.diary.config(nodeConfig))
			time.Sleep(10 * time.Second)
			for j, id := range ids {
				s, _ := register(t, f.nodes[j%3], id)
				require.True(t, s.Resumed() && !s.Moved())
			}
			for _, o := range f.diary.onlines()[90+30*i:] {
				require.True(t, o.Resumed)
			}
		}
		long(time.Hour)
		require.Empty(t, f.diary.offlines())
		count, err := f.nodes[0].Count(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 90, count)
	})
}

func TestADetachedSessionEndsWhenNobodyResumesIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		s, _ := register(t, f.nodes[0], "a")
		detached := time.Now()
		s.Detach()
		time.Sleep(80 * time.Second)
		where, err := f.nodes[1].Lookup(ctx, "a")
		require.NoError(t, err)
		require.True(t, where.Detached)
		require.Empty(t, f.diary.offlines())
		time.Sleep(11 * time.Second)
		require.Len(t, f.diary.offlines(), 1)
		require.Equal(t, ReasonDetached, f.diary.offlines()[0].Reason)
		require.Less(t, f.diary.offlines()[0].LastSeen.UnixMilli()-1_800_000_000_000-detached.Sub(f.began).Milliseconds(), int64(1000))
	})
}

func TestAKickIsHeardOrFound(t *testing.T) {
	for _, hears := range []bool{true, false} {
		t.Run(fmt.Sprintf("hears=%v", hears), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 2, nodeConfig)
				s, c := register(t, f.nodes[0], "a")
				if !hears {
					f.set(func() { f.fakes[0].node = "nobody" })
				}
				require.ErrorIs(t, f.nodes[1].Kick(ctx, "b"), ErrNotFound)
				require.NoError(t, f.nodes[1].Kick(ctx, "a"))
				if hears {
					time.Sleep(2 * time.Second)
				} else {
					time.Sleep(31 * time.Second)
				}
				require.EqualValues(t, 1, c.closed.Load())
				require.Equal(t, ReasonKicked, s.Reason())
				require.Len(t, f.diary.offlines(), 1)
				require.Equal(t, ReasonKicked, f.diary.offlines()[0].Reason)
			})
		})
	}
}

func TestWhatCanNotBeToldIsToldAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		f.diary.fails = 3
		s, _ := register(t, f.nodes[0], "a")
		s.Close()
		time.Sleep(2 * time.Minute)
		ends := f.diary.offlines()
		require.Len(t, ends, 4)
		for i, end := range ends {
			require.Equal(t, i+1, end.Attempt)
			require.Equal(t, s.Epoch(), end.Epoch)
		}
		require.Zero(t, f.kept())
	})
}

func TestAnEndThatWasNotToldYetIsDroppedByARegistration(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		f.diary.fails = 1
		s, _ := register(t, f.nodes[0], "a")
		s.Close()
		time.Sleep(700 * time.Millisecond) // told once, and failed
		require.Len(t, f.diary.offlines(), 1)
		anew, _ := register(t, f.nodes[1], "a")
		long(time.Hour)
		require.True(t, anew.Alive())
		require.Len(t, f.diary.offlines(), 1)
	})
}

func TestMoreThanAShareIsHeldForALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		for i := range 100 {
			n := 0
			if i >= 90 {
				n = 1
			}
			register(t, f.nodes[n], fmt.Sprint("session-", i))
		}
		f.set(func() { f.fakes[0].cut = true })
		time.Sleep(100 * time.Second)
		require.Empty(t, f.diary.offlines())
		require.EqualValues(t, 1, f.nodes[1].Stats().Held)
		time.Sleep(90 * time.Second)
		require.Len(t, f.diary.offlines(), 90)
	})
}

func TestDetachedSessionsEndInTheirTimeHoweverManyTheyAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, beatConfig)
		for i := range 40 {
			register(t, f.nodes[0], fmt.Sprint("stays-", i))
		}
		for i := range 100 {
			s, _ := register(t, f.nodes[1], fmt.Sprint("goes-", i))
			s.Detach()
		}
		time.Sleep(f.nodes[0].cfg.Resume + 2*time.Second)
		require.Len(t, f.diary.offlines(), 100)
		require.Zero(t, f.nodes[0].Stats().Held+f.nodes[1].Stats().Held)
	})
}

func TestSessionsThatCameTogetherAreNotRenewedTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		for i := range 1000 {
			register(t, f.nodes[0], fmt.Sprint("session-", i))
		}
		long(15 * time.Minute)
		most, last := uint64(0), f.nodes[0].Stats().Renewals
		for range 60 {
			time.Sleep(time.Second)
			now := f.nodes[0].Stats().Renewals
			most, last = max(most, now-last), now
		}
		require.Less(t, most, uint64(200), "of a thousand in thirty seconds, in one")
	})
}

// newGuarded makes a connection under a Keeper with a timeout of ten seconds.
func newGuarded(t *testing.T) (k *keepalive.Keeper, conn, guarded net.Conn) {
	k, err := keepalive.New(keepalive.Config{Timeout: 10 * time.Second})
	require.NoError(t, err)
	near, far := net.Pipe()
	t.Cleanup(func() {
		far.Close()
		k.Close()
	})
	return k, near, k.Conn(near)
}

func TestASessionOfAGuardedConnectionEndsWithIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k, near, guarded := newGuarded(t)
		cfg := nodeConfig
		cfg.Keeper = k
		f := newFleet(t, 1, cfg)
		s, err := f.nodes[0].Register(ctx, guarded, "a", nil)
		require.NoError(t, err)
		time.Sleep(9 * time.Second)
		require.True(t, s.Alive())
		time.Sleep(3 * time.Second) // it is silent for too long
		require.Equal(t, ReasonClosed, s.Reason())
		require.Len(t, f.diary.offlines(), 1)
		_, err = f.nodes[0].Register(ctx, guarded, "a", nil)
		require.ErrorIs(t, err, keepalive.ErrNotGuarded)
		_, err = f.nodes[0].Register(ctx, near, "a", nil)
		require.ErrorIs(t, err, keepalive.ErrNotGuarded)
		require.Zero(t, f.nodes[0].Len())
	})
}

// A Keeper that drains spreads its goodbyes. Whoever comes back in time was never away.
func TestASessionOfADrainedConnectionWaitsToBeResumed(t *testing.T) {
	for name, after := range map[string]func(s *Session){
		"by the node":    func(*Session) {},
		"by the program": func(s *Session) { _ = s.Close() }, // its Read has returned
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				k, _, guarded := newGuarded(t)
				f := newFleet(t, 1, nodeConfig)
				cfg := nodeConfig
				cfg.Keeper = k
				n := f.add(t, "drained", cfg)
				sessions := map[string]*Session{}
				for _, id := range []string{"back", "gone"} {
					s, err := n.Register(ctx, guarded, id, nil)
					require.NoError(t, err)
					sessions[id] = s
				}
				context.AfterFunc(keepalive.Of(guarded).Context(), func() { after(sessions["back"]) })
				require.NoError(t, k.Drain(ctx, time.Second))
				time.Sleep(time.Second)
				require.Equal(t, ReasonDetached, sessions["back"].Reason())
				s, _ := register(t, f.nodes[0], "back")
				require.True(t, s.Resumed())
				require.Empty(t, f.diary.offlines())
				time.Sleep(2 * cfg.withDefaults().Resume)
				require.Equal(t, ReasonDetached, f.diary.by()["gone"].Reason)
				require.Len(t, f.diary.offlines(), 1)
				require.True(t, s.Alive())
			})
		})
	}
}

func TestAKickedSessionsGuardedConnectionIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k, _, guarded := newGuarded(t)
		cfg := nodeConfig
		cfg.Keeper = k
		f := newFleet(t, 1, cfg)
		s, err := f.nodes[0].Register(ctx, guarded, "a", nil)
		require.NoError(t, err)
		require.NoError(t, f.nodes[0].Kick(ctx, "a"))
		time.Sleep(time.Second)
		require.Equal(t, ReasonKicked, s.Reason())
		require.Zero(t, k.Len())
	})
}

func TestUserFunctionsThatPanicHarmNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := nodeConfig
		f := &fleetOf{shared: newShared(cfg)}
		cfg.OnOnline = func(Online) { panic("online") }
		cfg.OnEnd = func(*Session, Reason) { panic("end") }
		var told atomic.Int32
		cfg.OnOffline = func(context.Context, Offline) error {
			if told.Add(1) == 1 {
				panic("offline")
			}
			return nil
		}
		n := f.add(t, "node", cfg)
		register(t, n, "a")
		_, c := register(t, n, "b")
		require.NoError(t, n.Kick(ctx, "b"))
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, c.closed.Load())
		require.EqualValues(t, 2, told.Load())
		require.EqualValues(t, 4, n.Stats().Panics)
	})
}

func TestARegistrationThatNobodyWaitsForIsTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		f.set(func() { f.fakes[0].slow = time.Second })
		hurry, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := f.nodes[0].Register(hurry, &conn{}, "a", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(10 * time.Second)
		f.set(func() { require.Empty(t, f.model.leases) })
		require.Zero(t, f.nodes[0].Len())
	})
}

func TestWhatIsClosedWhileRedisIsAwayEndsLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		s, _ := register(t, f.nodes[0], "a")
		f.set(func() { f.away = true })
		s.Close()
		time.Sleep(20 * time.Second)
		f.set(func() { f.away = false })
		time.Sleep(5 * time.Second)
		require.Len(t, f.diary.offlines(), 1)
		require.Equal(t, ReasonClosed, f.diary.offlines()[0].Reason)
	})
}

func TestCloseIsIdempotentAndClosesWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		s, c := register(t, f.nodes[0], "a")
		f.set(func() { f.away = true })
		require.NoError(t, f.nodes[0].Close())
		require.NoError(t, f.nodes[0].Close())
		require.EqualValues(t, 1, c.closed.Load())
		require.Equal(t, ReasonDraining, s.Reason())
		_, err := f.nodes[0].Register(ctx, &conn{}, "b", nil)
		require.ErrorIs(t, err, ErrDraining)
	})
}

func TestWhatIsImpossibleIsRefusedWithTheLimit(t *testing.T) {
	good := Config{Node: "n"}
	for name, change := range map[string]func(*Config){
		`Node "", must be from 1 to 200 bytes of UTF-8`:                                  func(c *Config) { c.Node = "" },
		`Prefix "a{b", must be at most 100 bytes without braces`:                         func(c *Config) { c.Prefix = "a{b" },
		"Slots 3, must be a power of two from 1 to 1024":                                 func(c *Config) { c.Slots = 3 },
		"Lease 1ms, must be from 300ms to 168h0m0s":                                      func(c *Config) { c.Lease = time.Millisecond },
		"Renew 2m0s, must be from 1ms to 1m30s":                                          func(c *Config) { c.Renew = 2 * time.Minute },
		"Renew -1s, must be from 1ms to 1m30s":                                           func(c *Config) { c.Renew = -time.Second },
		"Lease 1m30s, must be at least 2 Renew (45s), 2 Timeout (3s) and Sweep (500ms),": func(c *Config) { c.Renew = 45 * time.Second },
		"Jitter 0.9, must be at most 0.5":                                                func(c *Config) { c.Jitter = 0.9 },
		"MaxExpire 2, must be at most 1":                                                 func(c *Config) { c.MaxExpire = 2 },
		"Keeper, must be nil or one from keepalive.New":                                  func(c *Config) { c.Keeper = new(keepalive.Keeper) },
		"Calls 257, must be from 1 to 256":                                               func(c *Config) { c.Calls = 257 },
		"Sweep 1h0m0s, must be from 1ms to 15s":                                          func(c *Config) { c.Sweep = time.Hour },
		"NodeLease 10ms, must be from 300ms to Lease, 10m0s":                             func(c *Config) { c.NodeLease = 10 * time.Millisecond },
		"NodeLease -1s, must be from 300ms to Lease, 10m0s":                              func(c *Config) { c.NodeLease = -time.Second },
		"NodeLease 2m0s, must be from 300ms to Lease, 1m30s":                             func(c *Config) { c.NodeLease, c.Lease = 2*time.Minute, 90*time.Second },
		"NodeLease 15s, must be at least two thirds of it, 2 Timeout (3s)":               func(c *Config) { c.NodeLease, c.Timeout = 15*time.Second, 3*time.Second },
		"Sweep 3s, must be from 1ms to 2.5s":                                             func(c *Config) { c.NodeLease, c.Sweep = 15*time.Second, 3*time.Second },
		"Resume 1000h0m0s, must be from 1ms to 168h0m0s":                                 func(c *Config) { c.Resume = 1000 * time.Hour },
	} {
		cfg := good
		change(&cfg)
		_, err := Open(ctx, "redis://localhost", cfg)
		require.Equal(t, cfg.Validate(), err, name)
		require.ErrorIs(t, err, ErrArgument, name)
		require.ErrorContains(t, err, name)
	}
	for url, said := range map[string]string{
		"":                      "URL of Redis: redis: invalid URL scheme",
		"http://user:secret@x":  "URL of Redis: redis: invalid URL scheme: http",
		"redis:secret":          "URL of Redis: has no // after its scheme",
		"redis://user:s/ecret@": "URL of Redis: can't be parsed",
	} {
		_, err := Open(ctx, url, good)
		require.ErrorIs(t, err, ErrArgument, url)
		require.ErrorContains(t, err, said, url)
		require.NotContains(t, err.Error(), "ecret")
	}
}

func TestSessionsThatCanNotBeAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		for _, id := range []string{"", string(make([]byte, 513)), "\xff"} {
			_, err := f.nodes[0].Register(ctx, &conn{}, id, nil)
			require.ErrorIs(t, err, ErrArgument)
			require.ErrorContains(t, err, "must be from 1 to 512 bytes")
		}
		_, err := f.nodes[0].Lookup(ctx, "\xff")
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorIs(t, f.nodes[0].Kick(ctx, ""), ErrArgument)
		_, err = f.nodes[0].Register(ctx, &conn{}, "a", make([]byte, 4097))
		require.ErrorContains(t, err, "meta of 4097 bytes, must be at most 4096")
		_, err = f.nodes[0].Register(ctx, nil, "a", nil)
		require.ErrorContains(t, err, "conn is nil")
	})
}
