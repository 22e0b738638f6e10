package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func TestItDoesWhatEveryEngineMust(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	second := func(t *testing.T) engine.Engine {
		e, err := sqlite.Open(path, sqlite.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		return e
	}
	enginetest.Run(t, second(t), enginetest.Options{Second: second})
}
