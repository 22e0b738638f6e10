package redis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func TestAServerSaysWhetherItKeepsAnythingOnDisk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args     []string
		volatile bool
	}{
		{nil, true}, // as of testserver
		{[]string{"--appendonly", "yes"}, false},
		{[]string{"--save", "3600", "1"}, false},
		{[]string{"--rename-command", "CONFIG", ""}, false}, // as some providers have it
	} {
		e := openEngine(t, startServer(t, test.args...), redis.Config{})
		volatile, err := e.Volatile(ctx)
		require.NoError(t, err, test.args)
		require.Equal(t, test.volatile, volatile, test.args)
		require.NoError(t, e.Close())
		_, err = e.Volatile(ctx)
		require.Error(t, err)
	}
	_, nodes := startClusterOf(t, 3, "--appendonly", "yes")
	e := openEngine(t, nodes[1], redis.Config{})
	volatile, err := e.Volatile(ctx)
	require.NoError(t, err)
	require.False(t, volatile)
	require.NoError(t, nodes[2].client(t).ConfigSet(ctx, "appendonly", "no").Err())
	volatile, err = e.Volatile(ctx)
	require.NoError(t, err)
	require.True(t, volatile, "one of them is enough")

	nodes[1].URL += "?read_timeout=5s"
	e = openEngine(t, nodes[1], redis.Config{})
	nodes[0].Pause(t)
	volatile, err = e.Volatile(ctx)
	nodes[0].Continue(t)
	require.NoError(t, err, "a server that hangs keeps nobody from beginning")
	require.True(t, volatile)
}
