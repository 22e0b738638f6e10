package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

func TestItDoesWhatEveryEngineMust(t *testing.T) {
	schema := newSchema()
	enginetest.Run(t, open(t, schema), enginetest.Options{
		Second: func(t *testing.T) timeout.Engine { return open(t, schema) },
		Open:   func(t *testing.T) timeout.Engine { return open(t, newSchema()) },
	})
}

// That is what a pooler that works by transaction needs.
func TestItCanDoWithoutPreparedStatements(t *testing.T) {
	engine, err := postgres.Open(t.Context(), sharedURL(t, "default_query_exec_mode=exec"), postgres.Config{Schema: newSchema()})
	require.NoError(t, err)
	defer engine.Close()
	_, err = engine.SetTopic(t.Context(), timeout.Topic{Name: "orders", Slots: 1, Retain: time.Hour}, false)
	require.NoError(t, err)
	call := &timeout.Callback{Kind: "http", Target: "https://example.org/"}
	set(t, engine, timeout.Task{ID: "1", Payload: []byte{0, 255}, Callback: call}, timeout.Task{ID: "2", After: time.Hour, IfAbsent: true})
	leased := leaseOne(t, engine, time.Minute)
	require.Equal(t, []byte{0, 255}, leased.Payload)
	require.Equal(t, call, leased.Callback)
	held, err := engine.Extend(t.Context(), []timeout.Token{leased.Token}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, held)
	ask := timeout.Ask{
		Topic: "orders", Node: "n", Max: 10, Lease: time.Minute, Slots: []int{0}, Term: 2,
		Settle: []timeout.Outcome{{Token: leased.Token, As: timeout.Dead, Error: "no"}},
	}
	batch, err := engine.Expire(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, batch.Settled)
	answers, err := engine.Replay(t.Context(), []timeout.Key{key("1")})
	require.NoError(t, err)
	require.Equal(t, timeout.Dead, answers[0].Was)
	answers, err = engine.Move(t.Context(), []timeout.Move{{Key: key("2"), After: time.Minute}})
	require.NoError(t, err)
	require.Equal(t, timeout.Pending, answers[0].Was)
	claimed, err := engine.Claim(t.Context(), "orders", "n", []timeout.Wanted{{ID: "2", Version: answers[0].Version}}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, answers[0].Due.UnixMilli(), claimed[0].At.UnixMilli())
	answers, err = engine.Remove(t.Context(), []timeout.Removal{{Key: key("2")}})
	require.NoError(t, err)
	require.Equal(t, timeout.Pending, answers[0].Was)
	page, err := engine.List(t.Context(), timeout.Query{Topic: "orders", State: timeout.Removed})
	require.NoError(t, err)
	require.Len(t, page.Tasks, 1)
	upcoming, err := engine.Upcoming(t.Context(), "orders", nil, time.Now().Add(time.Hour), "", 10)
	require.NoError(t, err)
	require.Len(t, upcoming.Wanted, 1)
	_, err = engine.Upkeep(t.Context(), 0)
	require.NoError(t, err)
}
