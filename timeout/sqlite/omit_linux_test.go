package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func TestAListWithoutPayloadsReadsNone(t *testing.T) {
	const large = 8
	path := filepath.Join(t.TempDir(), "tasks.db")
	e := openEngine(t, path)
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: "t"}, true)
	require.NoError(t, err)
	for i := range large {
		_, err = e.Set(t.Context(), []engine.Task{{Topic: "t", ID: fmt.Sprint(i), After: time.Hour, Payload: make([]byte, engine.MaxPayload)}})
		require.NoError(t, err)
	}
	require.NoError(t, e.Close())

	e = openEngine(t, path)
	before := read(t)
	page, err := e.List(t.Context(), engine.Query{Topic: "t", State: engine.Pending, OmitPayload: true})
	require.NoError(t, err)
	require.Len(t, page.Tasks, large)
	require.Less(t, read(t)-before, int64(engine.MaxPayload), "of %d payloads", large)
	for _, task := range page.Tasks {
		require.Equal(t, engine.MaxPayload, task.PayloadBytes)
		require.NotZero(t, task.Created)
	}
	_, err = e.List(t.Context(), engine.Query{Topic: "t", State: engine.Pending, Limit: 2})
	require.NoError(t, err)
	require.Greater(t, read(t)-before, int64(2*engine.MaxPayload), "the test would see it")
}

// read returns how many bytes this process has read from files.
func read(t *testing.T) (bytes int64) {
	text, err := os.ReadFile("/proc/self/io")
	require.NoError(t, err)
	_, err = fmt.Sscanf(string(text), "rchar: %d", &bytes)
	require.NoError(t, err)
	return bytes
}
