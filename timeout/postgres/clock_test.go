package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// withClock returns a server with a settable clock, and an engine on it, with a topic.
func withClock(t *testing.T) (*testserver.Server, *postgres.Engine) {
	server := testserver.PostgresWithClock(t, testserver.NoFsync)
	e, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 1}, true)
	require.NoError(t, err)
	return server, e
}

// maintain does all of it.
func maintain(t *testing.T, e *postgres.Engine) {
	t.Helper()
	for purged := (engine.Purged{More: true}); purged.More; {
		var err error
		purged, err = e.Maintain(context.Background())
		require.NoError(t, err)
	}
}

func TestWhatWasMadeBeforeTheClockWasSteppedBackEndsInItsTime(t *testing.T) {
	server, e := withClock(t)
	const lease, ttl = 500 * time.Millisecond, 500 * time.Millisecond
	set(t, e, engine.Task{ID: "long", After: 2 * time.Hour}, engine.Task{ID: "kept"})
	server.SetClock(t, time.Hour)
	kept := leaseOne(t, e, time.Minute)
	set(t, e, engine.Task{ID: "1"})
	first := leaseOne(t, e, lease)
	_, err := e.Heartbeat(t.Context(), engine.Node{Name: "dead"}, ttl)
	require.NoError(t, err)
	_, err = e.Heartbeat(t.Context(), engine.Node{Name: "alive"}, time.Minute)
	require.NoError(t, err)

	server.SetClock(t, 0)
	due := get(t, e, "long").Due
	maintain(t, e)
	require.Eventually(t, func() bool {
		maintain(t, e)
		batch := leaseBatch(t, e, 10, lease)
		return len(batch.Leased) == 1 && batch.Leased[0].ID == "1" && batch.Leased[0].Again
	}, time.Minute, 20*time.Millisecond, "the lease ends")
	require.Equal(t, []bool{false}, leaseBatch(t, e, 0, 0, engine.Outcome{Token: first.Token, As: engine.Done}).Settled)
	left := time.Until(get(t, e, "kept").Until)
	require.Less(t, left, 61*time.Second)
	require.Greater(t, left, 40*time.Second, "no lease is made shorter than it was")
	require.Equal(t, []bool{true}, leaseBatch(t, e, 0, 0, engine.Outcome{Token: kept.Token, As: engine.Done}).Settled)
	require.Equal(t, due, get(t, e, "long").Due, "an action time stays")
	require.Eventually(t, func() bool {
		view, err := e.Heartbeat(t.Context(), engine.Node{Name: "alive"}, time.Minute)
		require.NoError(t, err)
		return len(view.Nodes) == 1
	}, time.Minute, 20*time.Millisecond, "the node that is dead is not a member for an hour")
}

func TestTheServersClockMayBeWrongAndStepped(t *testing.T) {
	t.Parallel()
	server, e := withClock(t)
	second, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Close()) })
	enginetest.Clock(t, []engine.Engine{e, second}, func(ahead time.Duration) { server.SetClock(t, ahead) })
}

func TestALeaseThatWasMadeLongerIsNotShortened(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	set(t, e, engine.Task{ID: "1"})
	leased := leaseOne(t, e, 50*time.Millisecond)
	held, err := e.Extend(t.Context(), []engine.Token{leased.Token}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, held)
	maintain(t, e)
	require.Greater(t, time.Until(get(t, e, "1").Until), 50*time.Minute)
}

func TestBordersOfMinutesYearsAndDaylightSavingMakeNoDifference(t *testing.T) {
	server := testserver.PostgresWithClock(t, testserver.NoFsync, "timezone="+enginetest.Zone)
	e, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	enginetest.Borders(t, func(at time.Time) (engine.Engine, func()) {
		server.SetClock(t, time.Until(at))
		return e, func() {}
	})
}
