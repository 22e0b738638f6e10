package testserver

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shows asks a server for its time, in seconds. The answer may take its time.
func shows(t *testing.T, ahead time.Duration, ask func() (string, error)) {
	t.Helper()
	before := time.Now()
	said, err := ask()
	after := time.Now()
	require.NoError(t, err)
	seconds, err := strconv.ParseInt(strings.Fields(said)[0], 10, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, seconds, before.Add(ahead).Unix())
	require.LessOrEqual(t, seconds, after.Add(ahead).Unix()+1, "PostgreSQL rounds")
}

func TestAClockCanBeSet(t *testing.T) {
	var left []string
	t.Run("servers", func(t *testing.T) {
		redis := RedisWithClock(t)
		postgres := PostgresWithClock(t, NoFsync)
		for _, ahead := range []time.Duration{0, 5 * time.Second, -5 * time.Second, 1000 * time.Hour, -1500 * time.Millisecond} {
			redis.SetClock(t, ahead)
			shows(t, ahead, func() (string, error) { return redis.ask("TIME") })
			postgres.SetClock(t, ahead)
			shows(t, ahead, func() (string, error) {
				return postgres.query(t.Context(), "SELECT extract(epoch FROM clock_timestamp())::bigint")
			})
		}
		redis.Kill(t)
		redis.Restart(t)
		redis.Kill(t)
		for _, pid := range append(redis.pids, postgres.pids...) {
			found, err := filepath.Glob("/dev/shm/*faketime*_" + strconv.Itoa(pid))
			require.NoError(t, err)
			left = append(left, found...)
		}
		require.NotEmpty(t, left)
	})
	for _, path := range left {
		require.NoFileExists(t, path)
	}
}
