package index_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
)

// severed are members that a node can be cut off from.
type severed struct {
	engine.Members
	off atomic.Bool
}

func (s *severed) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	if s.off.Load() {
		return engine.View{}, errors.New("severed")
	}
	return s.Members.Heartbeat(ctx, node, ttl)
}

// Two nodes share a file. The heartbeats of one fail for longer than the TTL, and come back.
func TestALimitForAllNodesHoldsWithAndWithoutAnIndex(t *testing.T) {
	const limit = 8
	for _, indexed := range []bool{false, true} {
		t.Run(fmt.Sprintf("indexed=%v", indexed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "tasks.db")
				var mu sync.Mutex
				running, most, begun := 0, 0, map[string]int{}
				handle := func(node string) {
					mu.Lock()
					running, begun[node] = running+1, begun[node]+1
					most = max(most, running)
					mu.Unlock()
					time.Sleep(500 * time.Millisecond)
					mu.Lock()
					running--
					mu.Unlock()
				}
				take := func() (n, a, b int) {
					mu.Lock()
					defer mu.Unlock()
					n, a, b = most, begun["a"], begun["b"]
					most = running
					clear(begun)
					return n, a, b
				}
				members := &severed{Members: table(t, path)}
				for _, node := range []string{"a", "b"} {
					var e engine.Engine = table(t, path)
					if indexed {
						e = over(t, e.(engine.Primary), inMemory(t), index.Config{Scan: 250 * time.Millisecond})
					}
					cfg := timeout.Config{Node: node, Logger: slog.New(slog.DiscardHandler), Topic: engine.Topic{GlobalConcurrency: limit, Lease: time.Minute}}
					if node == "a" {
						cfg.Members = members
					}
					center, err := timeout.New(e, cfg)
					require.NoError(t, err)
					require.NoError(t, center.Handle("orders", func(context.Context, engine.Task) error {
						handle(node)
						return nil
					}))
					runs(t, center)
					time.Sleep(time.Second) // so their heartbeats are at different times
				}
				setter, set := table(t, path), 0
				pass := func(seconds int) (a, b int) {
					t.Helper()
					for range seconds {
						tasks := make([]engine.Task, 2*limit)
						for i := range tasks {
							set++
							tasks[i] = engine.Task{Topic: "orders", ID: fmt.Sprint(set)}
						}
						_, err := setter.Set(t.Context(), tasks)
						require.NoError(t, err)
						time.Sleep(time.Second)
						var n int
						n, a, b = take()
						require.LessOrEqual(t, n, limit)
					}
					return a, b
				}
				a, b := pass(15)
				require.NotZero(t, a)
				require.NotZero(t, b)
				members.off.Store(true)
				a, b = pass(20)
				require.Zero(t, a)
				require.NotZero(t, b)
				members.off.Store(false)
				a, _ = pass(20)
				require.NotZero(t, a)
			})
		})
	}
}
