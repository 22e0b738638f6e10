package fleet

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// beatConfig gives nodes a lease of a quarter of a minute, extended every five seconds at the latest.
// A session's lease is ten minutes.
var beatConfig = func() Config {
	cfg := nodeConfig
	cfg.Lease, cfg.NodeLease = 0, 15*time.Second
	return cfg
}()

// There are millions of them, and allocations of 144 bytes, and of 160.
func TestASessionTakes144Bytes(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Session{}), uintptr(144))
}

// fillAll registers sessions in turn on all nodes.
func (f *fleetOf) fillAll(t *testing.T, count int) (sessions []*Session) {
	for i := range count {
		s, _ := register(t, f.nodes[i%len(f.nodes)], fmt.Sprint("session-", i))
		sessions = append(sessions, s)
	}
	return sessions
}

func TestADeadNodesSessionsEndWithinItsLeaseHoweverLongTheirs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3, beatConfig)
		f.fillAll(t, 300)
		long(10 * time.Minute)
		began := f.dies(t, 9900*time.Millisecond, 16*time.Second) // a lease less a beat
		for _, end := range f.diary.offlines() {
			seen := time.Duration(end.LastSeen.UnixMilli()-1_800_000_000_000) * time.Millisecond
			require.InDelta(t, began.Sub(f.began), seen, float64(6*time.Second), "the node's last beat")
		}
		long(time.Hour)
		require.Len(t, f.diary.offlines(), 100)
		require.Equal(t, 200, f.nodes[1].Len()+f.nodes[2].Len())
		f.set(func() { require.Len(t, f.model.nodes, 2) })
	})
}

func TestANodeWithALeaseWritesNothingForItsSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := beatConfig
		cfg.Lease = 24 * time.Hour
		f := newFleet(t, 2, cfg)
		sessions := f.fillAll(t, 100)
		exactly(time.Hour)
		allAlive(t, sessions)
		for _, n := range f.nodes {
			require.Zero(t, n.Stats().Renewals)
			require.InDelta(t, 780, n.Stats().Beats, 80, "one in 4.25s to 5s")
		}
		require.Empty(t, f.diary.offlines())
	})
}

func TestABeatDoesNotLookAtSessions(t *testing.T) {
	n := nodeOn(t, new(diary).config(beatConfig).withDefaults(), newShared(beatConfig).connect("a"))
	register(t, n, "a")
	eventually(t, func() bool { return n.Stats().Beats > 0 }, "the first one, which does")
	n.mu.Lock()
	defer n.mu.Unlock()
	done := make(chan bool)
	go func() {
		done <- n.beatOnce()
		n.forsaken(time.Second)
		close(done)
	}()
	for range 2 {
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			require.Fail(t, "it waits for who looks at sessions")
		}
	}
}

// To take very many sessions away takes time. Redis answers meanwhile.
func TestALeaseThatComesLateSavesWhoIsNotTakenAwayYet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, beatConfig)
		n := f.nodes[0]
		s, _ := register(t, n, "a")
		long(time.Minute)
		require.True(t, n.isForsaken(s.slot, beatConfig.NodeLease))
		require.True(t, n.beatOnce())
		require.False(t, n.isForsaken(s.slot, beatConfig.NodeLease-time.Second))
		require.True(t, n.isForsaken(s.slot, beatConfig.NodeLease))
		require.True(t, s.Alive())
	})
}

func TestANodeWhoseLeaseIsOverStopsServingBeforeItsSessionsAreOffline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, beatConfig)
		s, c := register(t, f.nodes[0], "a")
		time.Sleep(time.Minute)
		f.set(func() { f.fakes[0].cut = true })
		began := time.Now()
		for s.Alive() {
			require.Empty(t, f.diary.offlines())
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(t, time.Since(began), 15*time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, c.closed.Load())
		f.set(func() {
			left := f.model.nodes[f.fakes[0].by] - 1_800_000_000_000 - time.Since(f.began).Milliseconds()
			require.InDelta(t, 225, left, 85, "a hundredth of the lease to close the connection, and up to another one")
		})
		require.Equal(t, ReasonLost, f.diary.end("a"))
		time.Sleep(time.Minute)
		require.Len(t, f.diary.offlines(), 1)
		require.Zero(t, f.nodes[0].Len())
		// It is a node as any other when it is back.
		f.set(func() { f.fakes[0].cut = false })
		anew, _ := register(t, f.nodes[0], "a")
		long(time.Hour)
		require.True(t, anew.Alive())
		require.Len(t, f.diary.offlines(), 1)
	})
}

func TestANodeThatMayOutliveItsLeaseIsFencedWhenItIsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := beatConfig
		cfg.Outlive = true
		f := newFleet(t, 2, cfg)
		s, c := register(t, f.nodes[0], "a")
		moved, c2 := register(t, f.nodes[0], "b")
		f.set(func() { f.fakes[0].cut = true })
		time.Sleep(time.Minute)
		require.False(t, s.Alive())
		require.Zero(t, c.closed.Load())
		require.Len(t, f.diary.offlines(), 2)
		anew, _ := register(t, f.nodes[1], "b")
		f.set(func() { f.fakes[0].cut = false })
		// A registration gives the node its lease again, but not to its earlier sessions.
		fresh, _ := register(t, f.nodes[0], "c")
		require.True(t, fresh.Alive())
		require.False(t, s.Alive())
		require.False(t, moved.Alive())
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 1, c.closed.Load())
		require.EqualValues(t, 1, c2.closed.Load())
		require.Equal(t, ReasonExpired, s.Reason())
		require.Equal(t, ReasonMoved, moved.Reason())
		long(time.Hour)
		require.True(t, anew.Alive())
		require.True(t, fresh.Alive())
		require.Len(t, f.diary.offlines(), 2)
	})
}

func TestRedisThatIsAwayForLongerThanANodesLeaseHasNobodyOffline(t *testing.T) {
	for _, away := range []time.Duration{20 * time.Second, 10 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cfg := beatConfig
				cfg.Outlive = true
				f := newFleet(t, 3, cfg)
				sessions := f.fillAll(t, 90)
				time.Sleep(time.Minute)
				f.set(func() { f.away = true })
				time.Sleep(away)
				f.set(func() { f.away = false })
				time.Sleep(5 * time.Second)
				allAlive(t, sessions)
				long(time.Hour)
				require.Empty(t, f.diary.offlines())
				allAlive(t, sessions)
				require.Positive(t, f.nodes[0].Stats().Held+f.nodes[1].Stats().Held+f.nodes[2].Stats().Held)
			})
		})
	}
}

func TestAnOutageAsLongAsABeatIsNoneToSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3, beatConfig)
		sessions := f.fillAll(t, 90)
		for i := range 40 {
			time.Sleep(31*time.Second + time.Duration(i)*130*time.Millisecond)
			f.set(func() { f.away = true })
			time.Sleep(5 * time.Second)
			f.set(func() { f.away = false })
		}
		allAlive(t, sessions)
		require.Empty(t, f.diary.offlines())
	})
}

func TestSessionsOfANodeThatHasLostItsLeaseWaitToBeResumed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, beatConfig)
		sessions := f.fillAll(t, 20)
		f.set(func() { f.away = true })
		time.Sleep(time.Minute)
		for _, s := range sessions {
			require.Equal(t, ReasonLost, s.Reason())
		}
		f.set(func() { f.away = false })
		time.Sleep(5 * time.Second)
		before := len(f.diary.onlines())
		for i := range 10 {
			register(t, f.nodes[1], fmt.Sprint("session-", i))
		}
		for _, o := range f.diary.onlines()[before:] {
			require.True(t, o.Resumed)
		}
		require.Empty(t, f.diary.offlines())
		long(20 * time.Minute)
		require.Len(t, f.diary.by(), 10, "those that nobody has resumed")
		require.Equal(t, 10, f.nodes[1].Len())
	})
}

func TestRedisThatHasLostItsDataIsToldOfAllSessionsWithinABeat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, beatConfig)
		sessions := f.fillAll(t, 100)
		moves, old := register(t, f.nodes[0], "moves")
		before := sessions[0].Epoch()
		time.Sleep(time.Minute)
		f.set(func() { f.model.lose(); f.model.server = "b" })
		anew, _ := register(t, f.nodes[1], "moves") // while nobody knows it
		time.Sleep(6 * time.Second)
		count, err := f.nodes[0].Count(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 101, count)
		allAlive(t, sessions)
		require.Greater(t, sessions[0].Epoch(), before)
		require.Equal(t, ReasonMoved, moves.Reason())
		require.EqualValues(t, 1, old.closed.Load())
		require.True(t, anew.Alive())
		long(time.Hour)
		require.Empty(t, f.diary.offlines())
	})
}

func TestTwoOfThreeNodesThatDieAtOnceAreHeldForALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3, beatConfig)
		f.fillAll(t, 90)
		time.Sleep(time.Minute)
		f.set(func() { f.fakes[0].cut, f.fakes[1].cut = true, true })
		time.Sleep(16 * time.Second)
		require.LessOrEqual(t, len(f.diary.offlines()), 30, "one of them is a share that may be")
		require.EqualValues(t, 1, f.nodes[2].Stats().Held)
		time.Sleep(16 * time.Second)
		require.Len(t, f.diary.offlines(), 60)
		require.EqualValues(t, 1, f.nodes[2].Stats().Held)
		require.Equal(t, 30, f.nodes[2].Len())
	})
}

func TestANodeThatIsClosedHasNoLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, beatConfig)
		f.fillAll(t, 20)
		require.NoError(t, f.nodes[0].Close())
		f.set(func() {
			require.Len(t, f.model.nodes, 1)
			require.Len(t, f.model.terms, 1)
		})
		for i := range 20 {
			if i%2 == 0 {
				register(t, f.nodes[1], fmt.Sprint("session-", i))
			}
		}
		long(time.Hour)
		require.Empty(t, f.diary.offlines())
	})
}

func TestANodeThatIsClosedWithSessionsLeftLeavesItsLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, beatConfig)
		f.fillAll(t, 20)
		time.Sleep(time.Minute)
		f.set(func() { f.fakes[0].full = true })
		require.NoError(t, f.nodes[0].Close())
		time.Sleep(9 * time.Second)
		require.Empty(t, f.diary.offlines(), "clients have time to come back")
		time.Sleep(7 * time.Second)
		require.Len(t, f.diary.offlines(), 10)
		f.set(func() { require.Len(t, f.model.nodes, 1) })
	})
}

func TestASessionWhoseRegistrationWasLostBeforeItWasAnsweredIsRegisteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, beatConfig)
		register(t, f.nodes[0], "a")
		time.Sleep(time.Second)
		f.set(func() { f.fakes[0].slow = 6 * time.Second })
		time.AfterFunc(500*time.Millisecond, func() {
			f.set(func() { f.model.lose(); f.model.server, f.fakes[0].slow = "b", 0 })
		})
		s, _ := register(t, f.nodes[0], "b") // and a beat says so before
		time.Sleep(time.Second)
		require.True(t, s.Alive())
		count, err := f.nodes[0].Count(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 2, count)
	})
}

// walking has always something left of a dead node.
type walking struct {
	store
	steps atomic.Int32
}

func (w *walking) sweep(ctx context.Context, limit int, outcomes []told) (swept, error) {
	time.Sleep(time.Millisecond)
	result, err := w.store.sweep(ctx, limit, outcomes)
	result.more = limit > 0 && w.steps.Add(1) < 100
	return result, err
}

func TestADeadNodesSessionsAreLookedForWithoutAPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := new(diary).config(beatConfig).withDefaults()
		w := &walking{store: newShared(beatConfig).connect("a")}
		nodeOn(t, cfg, w)
		time.Sleep(200 * time.Millisecond)
		require.EqualValues(t, 100, w.steps.Load())
	})
}

func TestASessionThatIsKickedWhileItsNodeIsDeadIsToldAsKicked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, beatConfig)
		register(t, f.nodes[0], "a")
		detached, _ := register(t, f.nodes[0], "b")
		detached.Detach()
		time.Sleep(time.Second)
		f.set(func() { f.fakes[0].cut = true })
		require.NoError(t, f.nodes[1].Kick(ctx, "a"))
		time.Sleep(20 * time.Second)
		require.Len(t, f.diary.offlines(), 1)
		require.Equal(t, ReasonKicked, f.diary.offlines()[0].Reason)
		time.Sleep(90 * time.Second)
		require.Len(t, f.diary.offlines(), 2)
		require.Equal(t, ReasonDetached, f.diary.offlines()[1].Reason, "it has a window of its own")
	})
}

func TestANodeThatDidNotHearForAWhileLooksAtItsSessions(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"of a lease": func(c *Config) { *c = beating(*c) },
		"without":    func(c *Config) { c.Lease, c.Renew = 3*time.Minute, time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.Redis(t)
			r := newReal(t, server, 1, change)
			s, c := register(t, r.nodes[0], "a")
			stays, _ := register(t, r.nodes[0], "b")
			kicker := openStore(t, r.url, quick(r.prefix, "kicker"), incarnation{1})
			kicker.channel = "nobody hears it"
			there, err := kicker.kick(ctx, "a")
			require.NoError(t, err)
			require.True(t, there)
			require.Zero(t, s.Reason())
			require.NoError(t, connect(t, server).ClientKillByFilter(ctx, "TYPE", "pubsub").Err())
			eventually(t, func() bool { return c.closed.Load() == 1 }, "it is found long before its renewal")
			require.Equal(t, ReasonKicked, s.Reason())
			require.True(t, stays.Alive())
		})
	}
}
