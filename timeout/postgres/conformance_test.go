package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

func TestItDoesWhatEveryEngineMust(t *testing.T) {
	schema := newSchema()
	enginetest.Run(t, open(t, schema), enginetest.Options{
		Second: func(t *testing.T) timeout.Engine { return open(t, schema) },
	})
}

// That is what a pooler that works by transaction needs.
func TestItDoesSoWithoutPreparedStatements(t *testing.T) {
	engine, err := postgres.Open(t.Context(), sharedURL(t, "default_query_exec_mode=exec"), postgres.Config{Schema: newSchema()})
	require.NoError(t, err)
	defer engine.Close()
	enginetest.Run(t, engine, enginetest.Options{})
}
