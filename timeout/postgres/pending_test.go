package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

func TestTablesAreRefusedOrChangedAsTheConfigSays(t *testing.T) {
	cfg := postgres.Config{Schema: newSchema()}
	strict := postgres.Config{Schema: cfg.Schema, NoMigrate: true}
	url := testserver.SharedPostgres(t).URL
	all, err := postgres.Pending(t.Context(), url, cfg)
	require.NoError(t, err)
	require.Equal(t, 1, all[0].Version)
	require.Contains(t, all[0].SQL, `"`+cfg.Schema+`".hw_tasks`)
	_, err = postgres.Open(t.Context(), url, strict)
	require.ErrorIs(t, err, engine.ErrConflict)
	require.ErrorContains(t, err, cfg.Schema+" are of version 0, must be ")
	var made bool
	require.NoError(t, newPool(t).QueryRow(t.Context(), "SELECT to_regnamespace($1) IS NOT NULL", cfg.Schema).Scan(&made))
	require.False(t, made)

	open(t, cfg.Schema)
	none, err := postgres.Pending(t.Context(), url, cfg)
	require.NoError(t, err)
	require.Empty(t, none)
	e, err := postgres.Open(t.Context(), url, strict)
	require.NoError(t, err)
	require.NoError(t, e.Close())

	_, err = newPool(t).Exec(t.Context(), "DELETE FROM "+cfg.Schema+".hw_migrations WHERE version > 7")
	require.NoError(t, err)
	some, err := postgres.Pending(t.Context(), url, cfg)
	require.NoError(t, err)
	require.Equal(t, all[7:], some)
	_, err = postgres.Pending(t.Context(), url, postgres.Config{Schema: "a b"})
	require.ErrorIs(t, err, engine.ErrArgument)
}
