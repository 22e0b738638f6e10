package fleet

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARegistrationThatIsGivenUpWhileItWaitsForOthersTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, nodeConfig)
		f.set(func() { f.fakes[0].slow = 2 * time.Second })
		go f.nodes[0].Register(ctx, &conn{}, "other", nil) // under way
		time.Sleep(100 * time.Millisecond)
		hurry, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		_, err := f.nodes[0].Register(hurry, &conn{}, "a", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s, c := register(t, f.nodes[1], "a") // the client goes to another node
		time.Sleep(time.Minute)
		require.True(t, s.Alive())
		require.Zero(t, c.closed.Load())
		require.Empty(t, f.diary.offlines())
	})
}

// What was asked of Redis can't be undone, but the client may well come back.
func TestASessionThatWasTakenForNobodyWaitsToBeResumed(t *testing.T) {
	for _, detached := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			f := newFleet(t, 2, nodeConfig)
			s, _ := register(t, f.nodes[1], "a")
			if detached {
				s.Detach()
				time.Sleep(time.Second)
			}
			f.set(func() { f.fakes[0].slow = time.Second })
			hurry, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			_, err := f.nodes[0].Register(hurry, &conn{}, "a", nil)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(30 * time.Second)
			require.NotZero(t, s.Reason())
			anew, _ := register(t, f.nodes[1], "a")
			require.True(t, anew.Resumed())
			long(time.Hour)
			require.Empty(t, f.diary.offlines())
		})
	}
}

// Redis tells of it before it answers, or before the answers to others are there.
func TestWhatBecomesOfARegistrationBeforeItIsAnsweredIsNotMissed(t *testing.T) {
	for _, cfg := range []Config{nodeConfig, beatConfig} {
		for reason, happens := range map[Reason]func(n *Node) error{
			ReasonMoved: func(n *Node) error {
				_, err := n.Register(ctx, &conn{}, "a", nil)
				return err
			},
			ReasonKicked: func(n *Node) error { return n.Kick(ctx, "a") },
		} {
			t.Run(fmt.Sprintf("NodeLease=%v/%v", cfg.NodeLease, reason), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFleet(t, 2, cfg)
					f.set(func() { f.fakes[0].slow = 200 * time.Millisecond })
					refused := make(chan error, 1)
					go func() {
						_, err := f.nodes[0].Register(ctx, &conn{}, "a", nil)
						refused <- err
					}()
					time.Sleep(100 * time.Millisecond)
					require.NoError(t, happens(f.nodes[1]))
					require.Equal(t, reason, <-refused)
					require.Zero(t, f.nodes[0].Len())
					require.Zero(t, f.nodes[0].arriving.Len())
					time.Sleep(time.Minute)
					require.Equal(t, reason == ReasonKicked, len(f.diary.offlines()) == 1)
				})
			})
		}
	}
}

// Callers who were answered together go on in any order.
func TestARegistrationThatIsOlderThanOneThatHasEndedIsNotInstalled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		n := f.nodes[0]
		two := asking(t, n, 2)
		require.NoError(t, n.install(two[1]))
		n.arrived(two[1])
		two[1].Close()
		require.Equal(t, ReasonMoved, n.install(two[0]))
		n.arrived(two[0])
		require.Zero(t, n.Len())
		require.Zero(t, n.arriving.Len())
	})
}

func TestARegistrationThatNobodyWaitsForTakesTheSessionFromItsNodeToo(t *testing.T) {
	for _, same := range []bool{false, true} {
		t.Run(fmt.Sprintf("same=%v", same), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 1, nodeConfig)
				s, c := register(t, f.nodes[0], "a")
				anew := &conn{}
				if same {
					anew = c
				}
				f.set(func() { f.fakes[0].slow = time.Second })
				hurry, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
				_, err := f.nodes[0].Register(hurry, anew, "a", nil)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				time.Sleep(time.Second)
				require.Equal(t, ReasonMoved, s.Reason())
				require.EqualValues(t, 1, c.closed.Load())
			})
		})
	}
}

func TestARegistrationThatIsAnsweredWhileTheNodeIsClosedIsDetached(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		n := f.nodes[0]
		s := asking(t, n, 1)[0]
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			n.Close()
		}()
		synctest.Wait()
		require.ErrorIs(t, n.install(s), ErrDraining)
		n.arrived(s)
		<-closed
		f.set(func() { require.Equal(t, stateDetached, f.model.owners["a"].state) })
	})
}

// asking makes sessions that were answered together and are not installed yet.
func asking(t *testing.T, n *Node, count int) []*Session {
	answers, err := n.registerNow(slices.Repeat([]registration{{id: "a"}}, count))
	require.NoError(t, err)
	sessions := make([]*Session, count)
	for i := range sessions {
		sessions[i] = &Session{node: n, id: "a", conn: &conn{}, token: answers[i].token}
		require.NoError(t, n.arrive(sessions[i]))
	}
	return sessions
}

// function is a connection that can't be compared with any.
type function func() error

func (f function) Close() error { return f() }

// Its lease begins when Redis was asked for it, not when the node was.
func TestARegistrationThatWaitsForOthersHasAWholeLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		n := f.nodes[0]
		f.set(func() { f.fakes[0].slow = 40 * time.Second })
		var all sync.WaitGroup
		for _, id := range []string{"first", "second"} {
			all.Go(func() { register(t, n, id) })
			time.Sleep(time.Second)
		}
		all.Wait()
		long(time.Hour)
		require.Zero(t, f.diary.end("first"))
		require.Zero(t, f.diary.end("second"))
		require.Empty(t, f.diary.offlines())
	})
}

func TestASessionThatIsRegisteredAgainOnItsConnectionStaysThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		n := f.nodes[0]
		old, c := register(t, n, "a")
		f.set(func() { f.fakes[0].slow = 40 * time.Second }) // meanwhile the old one is found to be superseded
		s, err := n.Register(ctx, c, "a", []byte("more"))
		require.NoError(t, err)
		long(time.Hour)
		require.Equal(t, ReasonMoved, old.Reason())
		require.Zero(t, f.diary.end("a"))
		require.True(t, s.Alive())
		require.Zero(t, c.closed.Load())
		require.NoError(t, n.Kick(ctx, "a"))
		time.Sleep(time.Second)
		require.EqualValues(t, 1, c.closed.Load())
	})
}

func TestConnectionsThatCanNotBeComparedMove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		var closed atomic.Int32
		conn := function(func() error { closed.Add(1); return nil })
		for range 2 {
			_, err := f.nodes[0].Register(ctx, conn, "a", nil)
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 1, closed.Load())
	})
}

// Such as a connection of a gateway's, for many devices.
func TestAConnectionKeepsNoSessionThatIsOver(t *testing.T) {
	k, _, guarded := newGuarded(t)
	cfg := nodeConfig
	cfg.Lease = 600 * time.Millisecond // the wheel drops what is over within that
	f := &fleetOf{shared: newShared(cfg)}
	cfg.Keeper = k
	n := f.add(t, "node", cfg)
	var freed atomic.Int32
	const count = 100
	for i := range count {
		s, err := n.Register(ctx, guarded, fmt.Sprint("device-", i), nil)
		require.NoError(t, err)
		runtime.AddCleanup(s, func(struct{}) { freed.Add(1) }, struct{}{})
		s.Close()
	}
	eventually(t, func() bool {
		runtime.GC()
		return freed.Load() > count/2
	}, "they are freed")
}

// losing is a store of which answers to registrations get lost.
type losing struct {
	*fake
	answers atomic.Int32 // that are lost
}

func (l *losing) register(ctx context.Context, asks []registration) ([]registered, error) {
	answers, err := l.fake.register(ctx, asks)
	if l.answers.Add(-1) >= 0 {
		return make([]registered, len(asks)), context.DeadlineExceeded
	}
	return answers, err
}

func TestASessionThatIsRegisteredAgainWithoutAnAnswerStays(t *testing.T) {
	for _, cfg := range []Config{nodeConfig, beatConfig} {
		for _, what := range []string{"", "moves", "is kicked"} {
			t.Run(fmt.Sprintf("NodeLease=%v/%s", cfg.NodeLease, what), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFleet(t, 1, cfg)
					own := f.diary.config(cfg)
					own.Node = "losing"
					l := &losing{fake: f.connect("losing")}
					n := nodeOn(t, own.withDefaults(), l)
					s, c := register(t, n, "a")
					epoch := s.Epoch()
					time.Sleep(time.Second)
					l.answers.Store(3)
					f.set(func() { f.model.lose() })
					for again := false; !again; time.Sleep(time.Millisecond) {
						f.set(func() { _, again = f.model.owners["a"] })
					}
					switch what {
					case "":
						long(time.Hour)
						require.True(t, s.Alive())
						require.Zero(t, c.closed.Load())
						require.Greater(t, s.Epoch(), epoch)
						online := f.diary.onlines()
						require.Len(t, online, 2)
						require.True(t, online[1].Again)
						require.Equal(t, s.Epoch(), online[1].Epoch)
						require.Empty(t, f.diary.offlines())
						require.EqualValues(t, 3, n.Stats().Failures)
					case "moves":
						register(t, f.nodes[0], "a")
						time.Sleep(time.Second)
						require.Equal(t, ReasonMoved, s.Reason())
					default:
						require.NoError(t, f.nodes[0].Kick(ctx, "a"))
						time.Sleep(time.Second)
						require.Equal(t, ReasonKicked, s.Reason())
					}
				})
			})
		}
	}
}

// They would only be detached, and taken from where they are.
func TestWhoWaitsToBeRegisteredIsRefusedWhenTheNodeDrains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const count = 10 * batchSize
		f := newFleet(t, 2, nodeConfig)
		elsewhere, _ := register(t, f.nodes[1], fmt.Sprint(count-1))
		n := f.nodes[0]
		f.set(func() { f.fakes[0].slow = 3 * time.Second })
		var all sync.WaitGroup
		for i := range count {
			all.Go(func() {
				_, err := n.Register(ctx, &conn{}, fmt.Sprint(i), nil)
				require.ErrorIs(t, err, ErrDraining)
			})
			synctest.Wait()
		}
		began := time.Now()
		n.Close()
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		all.Wait()
		require.True(t, elsewhere.Alive())
	})
}

// Its connection was closed when its lease was over by the node's clock, before the answer was there.
func TestASessionThatIsLostWhileItIsRegisteredAgainIsNotOnline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		s, c := register(t, f.nodes[0], "a")
		f.set(func() { f.away = true })
		time.Sleep(nodeConfig.Lease - 3*time.Second)
		f.set(func() {
			f.away, f.fakes[0].slow = false, 5*time.Second
			f.model.lose()
		})
		time.Sleep(10 * time.Second)
		require.Equal(t, ReasonLost, s.Reason())
		require.EqualValues(t, 1, c.closed.Load())
		require.Len(t, f.diary.onlines(), 1, "it is not told to be online again")
		f.set(func() { require.Equal(t, stateDetached, f.model.owners["a"].state) })
		long(time.Hour)
		require.Len(t, f.diary.offlines(), 1)
		require.Zero(t, f.kept())
	})
}

func TestRegistrationsThatFailAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fleetOf{shared: newShared(nodeConfig)}
		l := &losing{fake: f.connect("losing")}
		n := nodeOn(t, nodeConfig.withDefaults(), l)
		l.answers.Store(1)
		_, err := n.Register(ctx, &conn{}, "a", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 1, n.Stats().Failures)
	})
}
