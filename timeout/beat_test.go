package timeout_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// headless is an engine with its topics on a hanging server.
type headless struct {
	engine.Engine
	hangs atomic.Bool
}

func (e *headless) Topics(ctx context.Context) ([]timeout.Topic, error) {
	if e.hangs.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return e.Engine.Topics(ctx)
}

func TestANodeStaysAMemberWhileTheTopicsCanNotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		kept, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = kept.Close() })
		engine := &headless{Engine: kept}
		ran := new(record)
		a := rigOn(t, engine, timeout.Config{Node: "a"})
		require.NoError(t, a.Handle("orders", func(_ context.Context, task timeout.Task) error {
			ran.add(task.ID)
			return nil
		}))
		b := rigOn(t, kept, timeout.Config{Node: "b"})
		pass(5 * time.Second)
		engine.hangs.Store(true)
		for range 60 {
			pass(time.Second)
			require.Len(t, b.View().Nodes, 2)
		}
		b.set("1", 0)
		pass(time.Second)
		require.Equal(t, []string{"1"}, ran.all())
	})
}
