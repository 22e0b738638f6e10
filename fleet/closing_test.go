package fleet

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newStuck makes a node with sessions. Its OnEnd waits until the test is over.
func newStuck(t *testing.T, count int) (f *fleetOf, sessions []*Session, conns []*conn) {
	f = &fleetOf{shared: newShared(nodeConfig)}
	cfg := nodeConfig
	over := make(chan struct{})
	cfg.OnEnd = func(*Session, Reason) { <-over }
	n := f.add(t, "node", cfg)
	t.Cleanup(func() { close(over) })
	for i := range count {
		s, c := register(t, n, fmt.Sprint(i))
		sessions, conns = append(sessions, s), append(conns, c)
	}
	return f, sessions, conns
}

func TestConnectionsAreClosedWhateverOnEndWaitsFor(t *testing.T) {
	const count = 2 * closers
	t.Run("kicked", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f, sessions, conns := newStuck(t, count+1)
			for _, s := range sessions[:count] {
				require.NoError(t, f.nodes[0].Kick(ctx, s.ID()))
			}
			time.Sleep(lastWord + time.Millisecond)
			for _, c := range conns[:count] {
				require.EqualValues(t, 1, c.closed.Load())
			}
			require.NoError(t, f.nodes[0].Kick(ctx, sessions[count].ID()))
			time.Sleep(lastWord + time.Millisecond)
			require.EqualValues(t, 1, conns[count].closed.Load())
			c := &f.nodes[0].closing
			c.mu.Lock()
			defer c.mu.Unlock()
			require.Nil(t, c.waiting, "nothing stays in memory")
		})
	})
	t.Run("drained", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f, _, conns := newStuck(t, count)
			began := time.Now()
			require.NoError(t, f.nodes[0].Drain(ctx))
			require.LessOrEqual(t, time.Since(began), count/closers*lastWord)
			for _, c := range conns {
				require.EqualValues(t, 1, c.closed.Load())
			}
		})
	})
	t.Run("lost", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f, sessions, conns := newStuck(t, count)
			time.Sleep(time.Minute)
			f.set(func() { f.fakes[0].cut = true })
			for f.nodes[0].Len() > 0 {
				time.Sleep(500 * time.Millisecond)
				for i, s := range sessions {
					if s.node.elapsed() >= time.Duration(s.good.Load())+nodeConfig.Lease && conns[i].closed.Load() != 1 {
						t.Fatal("its lease is over, and its connection was closed ", conns[i].closed.Load(), " times")
					}
				}
			}
		})
	})
}

func TestOnEndMayDrainItsNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fleetOf{shared: newShared(nodeConfig)}
		cfg := nodeConfig
		drained := make(chan error, 2)
		cfg.OnEnd = func(s *Session, _ Reason) { drained <- s.node.Drain(ctx) }
		n := f.add(t, "node", cfg)
		register(t, n, "a")
		register(t, n, "b")
		require.NoError(t, n.Kick(ctx, "a"))
		time.Sleep(time.Minute)
		require.Len(t, drained, 2)
		require.NoError(t, <-drained)
		require.NoError(t, <-drained)
	})
}

// slowConn is a connection with a slow Close.
type slowConn struct{ conn }

func (c *slowConn) Close() error {
	time.Sleep(time.Minute)
	return c.conn.Close()
}

func TestDrainWaitsForConnectionsToBeClosedAsLongAsItMay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		c := &slowConn{}
		_, err := f.nodes[0].Register(ctx, c, "a", nil)
		require.NoError(t, err)
		hurry, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, f.nodes[0].Drain(hurry), context.DeadlineExceeded)
		require.Zero(t, c.closed.Load())
		require.NoError(t, f.nodes[0].Drain(ctx))
		require.EqualValues(t, 1, c.closed.Load())
	})
}

// lateStore is slow to unregister sessions.
type lateStore struct {
	store
	late time.Duration
}

func (s lateStore) unregister(ctx context.Context, claims []claim, reason byte, resume time.Duration) ([]verdict, error) {
	select {
	case <-ctx.Done():
		return make([]verdict, len(claims)), context.Cause(ctx)
	case <-time.After(s.late):
		return s.store.unregister(ctx, claims, reason, resume)
	}
}

func TestSessionsThatAreClosedJustBeforeTheirNodeAreToldAsClosed(t *testing.T) {
	const count = 5 * batchSize
	for late, want := range map[time.Duration]int{
		100 * time.Millisecond: count,
		time.Second:            2 * batchSize, // Redis has three seconds
	} {
		t.Run(fmt.Sprintf("late=%v", late), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 1, nodeConfig)
				cfg := f.diary.config(nodeConfig)
				n, err := newNode(cfg.withDefaults(), lateStore{f.connect("late"), late})
				require.NoError(t, err)
				for i := range count {
					s, _ := register(t, n, fmt.Sprint(i))
					s.Close()
				}
				began := time.Now()
				require.NoError(t, n.Close())
				require.Less(t, time.Since(began), 5*time.Second)
				time.Sleep(2 * time.Second)
				require.GreaterOrEqual(t, len(f.diary.offlines()), want)
				for _, end := range f.diary.offlines() {
					require.Equal(t, ReasonClosed, end.Reason)
				}
			})
		})
	}
}
