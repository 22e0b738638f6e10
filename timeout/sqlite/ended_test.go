package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// leaseOf leases a task.
func leaseOf(t *testing.T, e *Engine, id string) {
	_, err := e.Set(t.Context(), []engine.Task{{Topic: "t", ID: id}})
	require.NoError(t, err)
	batch, err := e.Lease(t.Context(), engine.Ask{Topic: "t", Max: 1, Lease: time.Hour})
	require.NoError(t, err)
	require.Len(t, batch.Leased, 1)
}

func TestAnEndedLeaseIsOneSmallRowForAWhile(t *testing.T) {
	e := openInside(t)
	rows := func() (rows int) {
		t.Helper()
		_, err := one(t.Context(), e.reader, "SELECT count(*) FROM hw_meta WHERE name >= 'ended ' AND name < 'ended!'", nil, &rows)
		require.NoError(t, err)
		return rows
	}
	_, last, err := e.endedSince(t.Context(), "")
	require.NoError(t, err)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "waits", After: time.Hour}})
	require.NoError(t, err)
	_, err = e.Remove(t.Context(), []engine.Removal{{Key: engine.Key{Topic: "t", ID: "waits"}}, {Key: engine.Key{Topic: "t", ID: "missing"}}})
	require.NoError(t, err)
	require.Zero(t, rows(), "no lease has ended")

	for _, id := range []string{"1", "2"} {
		leaseOf(t, e, id)
	}
	removals := []engine.Removal{{Key: engine.Key{Topic: "t", ID: "1"}}, {Key: engine.Key{Topic: "t", ID: "2"}}}
	_, err = e.Remove(t.Context(), removals)
	require.NoError(t, err)
	require.Equal(t, 2, rows())
	ended, last, err := e.endedSince(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, []engine.Key{removals[0].Key, removals[1].Key}, ended)
	ended, again, err := e.endedSince(t.Context(), last)
	require.NoError(t, err)
	require.Empty(t, ended)
	require.Equal(t, last, again)
	_, now, err := e.endedSince(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, last, now)

	require.NoError(t, e.write(t.Context(), func(s *session) error {
		_, err := numbers(t.Context(), s, int(endedKept.Microseconds())) // as if time had passed
		return err
	}))
	leaseOf(t, e, "3")
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "3", After: time.Hour}})
	require.NoError(t, err)
	require.Equal(t, 1, rows(), "the old ones are gone")
	ended, _, err = e.endedSince(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, []engine.Key{{Topic: "t", ID: "3"}}, ended)
	require.Contains(t, plan(t, e, endedNames, last, endedNext), "PRIMARY KEY")
}

// BenchmarkIdleLook is what a center with nothing to do pays 25 times a second.
func BenchmarkIdleLook(b *testing.B) {
	e, err := Open(filepath.Join(b.TempDir(), "tasks.db"), Config{})
	require.NoError(b, err)
	defer e.Close()
	_, last, err := e.endedSince(b.Context(), "")
	require.NoError(b, err)
	for b.Loop() {
		if _, _, err := e.endedSince(b.Context(), last); err != nil {
			b.Fatal(err)
		}
	}
}
