package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

// seen has all numbers given so far: versions and leases.
type seen struct {
	*testing.T
	numbers map[int64]string
	leases  map[engine.Token]bool
}

func (s *seen) give(number int64, to string) {
	s.Helper()
	require.Empty(s.T, s.numbers[number], "%s has number %d, which was given before", to, number)
	s.numbers[number] = to
}

// use makes an engine give numbers. The tasks are the same each time.
func (s *seen) use(e *sqlite.Engine) {
	ctx := context.Background()
	for round := range 20 {
		tasks := make([]engine.Task, 10)
		moves := make([]engine.Move, len(tasks))
		for i := range tasks {
			tasks[i] = engine.Task{Topic: "t", ID: fmt.Sprint(i), After: time.Hour}
			moves[i] = engine.Move{Key: tasks[i].Key()}
		}
		set, err := e.Set(ctx, tasks)
		require.NoError(s.T, err)
		moved, err := e.Move(ctx, moves)
		require.NoError(s.T, err)
		for i := range tasks {
			s.give(set[i].Version, fmt.Sprintf("set %d of round %d", i, round))
			s.give(moved[i].Version, fmt.Sprintf("move %d of round %d", i, round))
		}
		batch, err := e.Lease(ctx, engine.Ask{Topic: "t", Node: "n", Max: len(tasks), Lease: time.Hour})
		require.NoError(s.T, err)
		require.Len(s.T, batch.Leased, len(tasks))
		s.give(batch.Leased[0].Token.Lease, fmt.Sprint("lease of round ", round))
		for _, leased := range batch.Leased {
			require.False(s.T, s.leases[leased.Token], "the token %+v was given before", leased.Token)
			s.leases[leased.Token] = true
		}
	}
}

// TestNoNumberIsGivenTwiceThoughCommitsAreLost restores a copy of the files. So it loses the last
// commits, as a power cut does. Afterwards the tokens of lost leases must match nothing.
func TestNoNumberIsGivenTwiceThoughCommitsAreLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	s := &seen{t, make(map[int64]string), make(map[engine.Token]bool)}
	e, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(t, err)
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "t"}, false)
	require.NoError(t, err)
	s.use(e)
	for range 3 {
		kept := make(map[string][]byte)
		for _, end := range []string{"", "-wal"} {
			kept[path+end], err = os.ReadFile(path + end)
			require.NoError(t, err)
		}
		s.use(e)
		require.NoError(t, e.Close())
		for file, content := range kept {
			require.NoError(t, os.WriteFile(file, content, 0o600))
		}
		e, err = sqlite.Open(path, sqlite.Config{})
		require.NoError(t, err)
		var stale []engine.Outcome
		for token := range s.leases {
			stale = append(stale, engine.Outcome{Token: token, As: engine.Done})
		}
		s.use(e)
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "t", Node: "n", Settle: stale})
		require.NoError(t, err)
		require.NotContains(t, batch.Settled, true, "an old token matches a new lease")
	}
	require.NoError(t, e.Close())
}
