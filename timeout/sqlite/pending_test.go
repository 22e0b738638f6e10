package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func TestAFileIsRefusedOrChangedAsTheConfigSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	missing, err := sqlite.Pending(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, 1, missing[0].Version)
	_, err = sqlite.Open(path, sqlite.Config{NoMigrate: true})
	require.ErrorIs(t, err, engine.ErrConflict)
	require.ErrorContains(t, err, path)
	_, err = os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist)

	openEngine(t, path)
	none, err := sqlite.Pending(t.Context(), path)
	require.NoError(t, err)
	require.Empty(t, none)
	other, err := sqlite.Open(path, sqlite.Config{NoMigrate: true})
	require.NoError(t, err)
	require.NoError(t, other.Close())

	setVersion := func(version int) {
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "UPDATE hw_meta SET value = ? WHERE name = 'schema'", version)
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
	setVersion(4)
	some, err := sqlite.Pending(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, missing[4], some[0])
	require.Equal(t, "0005_run.sql", some[0].Name)
	_, err = sqlite.Open(path, sqlite.Config{NoMigrate: true})
	require.ErrorContains(t, err, "are of version 4, must be 6")
	setVersion(99)
	for _, noMigrate := range []bool{false, true} {
		_, err = sqlite.Open(path, sqlite.Config{NoMigrate: noMigrate})
		require.ErrorIs(t, err, engine.ErrArgument)
		require.ErrorContains(t, err, "must be at most 6")
	}
	byHand := filepath.Join(t.TempDir(), "by-hand.db")
	db, err := sql.Open("sqlite", byHand)
	require.NoError(t, err)
	for _, m := range missing {
		_, err := db.ExecContext(t.Context(), m.SQL)
		require.NoError(t, err, m.Name)
	}
	require.NoError(t, db.Close())
	other, err = sqlite.Open(byHand, sqlite.Config{NoMigrate: true})
	require.NoError(t, err)
	require.NoError(t, other.Close())
	_, err = sqlite.Pending(t.Context(), ":memory:")
	require.ErrorIs(t, err, engine.ErrArgument)
}
