package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// withClock returns an engine on a server whose clock can be set, with a topic.
func withClock(t *testing.T) (*testserver.Server, *postgres.Engine) {
	server := testserver.PostgresWithClock(t, testserver.NoFsync)
	engine, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	_, err = engine.SetTopic(t.Context(), timeout.Topic{Name: "orders", Slots: 1}, true)
	require.NoError(t, err)
	return server, engine
}

// upkeep does all of it.
func upkeep(t *testing.T, e *postgres.Engine) {
	t.Helper()
	for swept := (timeout.Swept{More: true}); swept.More; {
		var err error
		swept, err = e.Upkeep(context.Background(), 0)
		require.NoError(t, err)
	}
}

func TestWhatWasMadeBeforeTheClockWasSteppedBackEndsInItsTime(t *testing.T) {
	server, engine := withClock(t)
	const lease, ttl = 500 * time.Millisecond, 500 * time.Millisecond
	set(t, engine, timeout.Task{ID: "long", After: 2 * time.Hour}, timeout.Task{ID: "1"})
	server.SetClock(t, time.Hour)
	first := leaseOne(t, engine, lease)
	set(t, engine, timeout.Task{ID: "kept"})
	kept := leaseOne(t, engine, time.Minute)
	_, err := engine.Beat(t.Context(), timeout.Node{Name: "dead"}, ttl)
	require.NoError(t, err)
	_, err = engine.Beat(t.Context(), timeout.Node{Name: "alive"}, time.Minute)
	require.NoError(t, err)
	ask := timeout.Ask{Topic: "orders", Node: "n", Max: 10, Lease: lease, Slots: []int{0}, Term: 9}
	_, err = engine.Expire(t.Context(), ask) // the fence
	require.NoError(t, err)

	server.SetClock(t, 0)
	due := get(t, engine, "long").Due
	upkeep(t, engine)
	require.Eventually(t, func() bool {
		upkeep(t, engine)
		batch := expire(t, engine, 10, lease)
		return len(batch.Leased) == 1 && batch.Leased[0].ID == "1" && batch.Leased[0].Again
	}, time.Minute, 20*time.Millisecond, "the lease ends")
	require.Equal(t, []bool{false}, expire(t, engine, 0, 0, timeout.Outcome{Token: first.Token, As: timeout.Done}).Settled)
	left := time.Until(get(t, engine, "kept").Until)
	require.Less(t, left, 61*time.Second)
	require.Greater(t, left, 40*time.Second, "no lease is made shorter than it was")
	require.Equal(t, []bool{true}, expire(t, engine, 0, 0, timeout.Outcome{Token: kept.Token, As: timeout.Done}).Settled)
	require.Equal(t, due, get(t, engine, "long").Due, "an action time stays")
	require.Eventually(t, func() bool {
		view, err := engine.Beat(t.Context(), timeout.Node{Name: "alive"}, time.Minute)
		require.NoError(t, err)
		return len(view.Nodes) == 1
	}, time.Minute, 20*time.Millisecond, "the node that is dead is not a member for an hour")

	ask.Term = 8
	_, err = engine.Expire(t.Context(), ask)
	require.ErrorIs(t, err, timeout.ErrFenced, "the fence still counts")
	server.SetClock(t, time.Minute)
	_, err = engine.Expire(t.Context(), ask)
	require.NoError(t, err, "and for no longer than any other")
}

func TestTheServersClockMayBeWrongAndStepped(t *testing.T) {
	t.Parallel()
	server, engine := withClock(t)
	second, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Close()) })
	enginetest.Clock(t, []timeout.Engine{engine, second}, func(ahead time.Duration) { server.SetClock(t, ahead) })
}

func TestALeaseThatWasMadeLongerIsNotShortened(t *testing.T) {
	engine := openTopic(t, timeout.Topic{Name: "orders"})
	set(t, engine, timeout.Task{ID: "1"})
	leased := leaseOne(t, engine, 50*time.Millisecond)
	held, err := engine.Extend(t.Context(), []timeout.Token{leased.Token}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, held)
	upkeep(t, engine)
	require.Greater(t, time.Until(get(t, engine, "1").Until), 50*time.Minute)
}

func TestBordersOfMinutesYearsAndDaylightSavingMakeNoDifference(t *testing.T) {
	server := testserver.PostgresWithClock(t, testserver.NoFsync, "timezone="+enginetest.Zone)
	engine, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	enginetest.Borders(t, func(at time.Time) (timeout.Engine, func()) {
		server.SetClock(t, time.Until(at))
		return engine, func() {}
	})
}
