package testserver

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAClockCanBeSet(t *testing.T) {
	var left []string
	t.Run("servers", func(t *testing.T) {
		redis := RedisWithClock(t)
		postgres := PostgresWithClock(t, NoFsync)
		for _, ahead := range []time.Duration{0, 5 * time.Second, -5 * time.Second, 1000 * time.Hour, -1500 * time.Millisecond} {
			redis.SetClock(t, ahead)
			said, err := redis.ask("TIME")
			require.NoError(t, err)
			seconds, err := strconv.ParseInt(strings.Fields(said)[0], 10, 64)
			require.NoError(t, err)
			require.InDelta(t, time.Now().Add(ahead).Unix(), seconds, 3)

			postgres.SetClock(t, ahead)
			said, err = postgres.query(t.Context(), "SELECT extract(epoch FROM clock_timestamp())::bigint")
			require.NoError(t, err)
			seconds, err = strconv.ParseInt(strings.TrimSpace(said), 10, 64)
			require.NoError(t, err)
			require.InDelta(t, time.Now().Add(ahead).Unix(), seconds, 3)
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
