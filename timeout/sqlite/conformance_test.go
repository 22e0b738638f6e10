package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a file, and closes it when the test ends.
func open(t testing.TB, path string, cfg sqlite.Config) *sqlite.Engine {
	t.Helper()
	engine, err := sqlite.Open(path, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return engine
}

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "tasks.db") }

func TestItDoesWhatEveryEngineMust(t *testing.T) {
	path := file(t)
	second := func(t *testing.T) timeout.Engine { return open(t, path, sqlite.Config{}) }
	enginetest.Run(t, open(t, path, sqlite.Config{}), enginetest.Options{Second: second})
}
