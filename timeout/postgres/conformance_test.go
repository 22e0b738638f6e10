package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

func TestItDoesWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	enginetest.Run(t, open(t, schema), enginetest.Options{
		Second: func(t *testing.T) engine.Engine { return open(t, schema) },
		Open:   func(t *testing.T) engine.Engine { return open(t, newSchema()) },
	})
}

// A pooler in transaction mode needs this.
func TestItCanDoWithoutPreparedStatements(t *testing.T) {
	e, err := postgres.Open(t.Context(), sharedURL(t, "default_query_exec_mode=exec"), postgres.Config{Schema: newSchema()})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 1, Retain: time.Hour}, false)
	require.NoError(t, err)
	call := &engine.Callback{Kind: "http", Target: "https://example.org/"}
	set(t, e, engine.Task{ID: "1", Payload: []byte{0, 255}, Callback: call}, engine.Task{ID: "2", After: time.Hour, IfAbsent: true})
	leased := leaseOne(t, e, time.Minute)
	require.Equal(t, []byte{0, 255}, leased.Payload)
	require.Equal(t, call, leased.Callback)
	held, err := e.Extend(t.Context(), []engine.Token{leased.Token}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, held)
	ask := engine.Ask{
		Topic: "orders", Node: "n", Max: 10, Lease: time.Minute, Slots: []int{0},
		Settle: []engine.Outcome{{Token: leased.Token, As: engine.Dead, Error: "no"}},
	}
	batch, err := e.Lease(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, batch.Settled)
	answers, err := e.Replay(t.Context(), []engine.Key{key("1")})
	require.NoError(t, err)
	require.Equal(t, engine.Dead, answers[0].Was)
	answers, err = e.Move(t.Context(), []engine.Move{{Key: key("2"), After: time.Minute}})
	require.NoError(t, err)
	require.Equal(t, engine.Pending, answers[0].Was)
	claimed, err := e.Claim(t.Context(), "orders", "n", []engine.Wanted{{ID: "2", Version: answers[0].Version}}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, answers[0].Due.UnixMilli(), claimed[0].At.UnixMilli())
	answers, err = e.Remove(t.Context(), []engine.Removal{{Key: key("2")}})
	require.NoError(t, err)
	require.Equal(t, engine.Pending, answers[0].Was)
	page, err := e.List(t.Context(), engine.Query{Topic: "orders", State: engine.Removed})
	require.NoError(t, err)
	require.Len(t, page.Tasks, 1)
	scanned, err := e.ScanBefore(t.Context(), "orders", nil, time.Now().Add(time.Hour), "", 10)
	require.NoError(t, err)
	require.Len(t, scanned.Wanted, 1)
	_, err = e.Maintain(t.Context())
	require.NoError(t, err)
}
