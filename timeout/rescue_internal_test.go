package timeout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestHandlersThatHaveNotBegunDoNotHang(t *testing.T) {
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	defer e.Close()
	c, err := New(e, Config{})
	require.NoError(t, err)
	now := time.Now()
	w := &worker{held: map[*attempt]struct{}{}, places: 1, workers: 1, moved: now.Add(-time.Hour), queue: []*attempt{{queued: now}}}
	w.attach(c, "orders", w, nil)
	w.topic = Topic{Name: "orders", Lease: time.Second}
	w.releaseHung(now)
	require.False(t, w.stuck)
	require.Len(t, w.queue, 1)
	w.busy = 1
	w.releaseHung(now)
	require.True(t, w.stuck)
	require.Empty(t, w.queue)
}
