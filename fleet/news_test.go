package fleet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

func TestANodeHearsFromTheBeginning(t *testing.T) {
	t.Parallel()
	server := testserver.SharedRedis(t)
	client := connect(t, server)
	for i := range 20 {
		r := newReal(t, server, 1, nil)
		channel := r.prefix + ":node:node-0"
		listeners, err := client.PubSubNumSub(ctx, channel).Result()
		require.NoError(t, err)
		require.EqualValues(t, 1, listeners[channel], "node %d", i)
	}
}

func TestAUserWhoMayNotHearIsRefused(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	require.NoError(t, connect(t, server).Do(ctx, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all").Err())
	_, err := New(ctx, quick(fmt.Sprintf("redis://deaf:secret@%s", server.Addr), "p", "n"))
	require.ErrorContains(t, err, `fleet: subscribing to channel "p:node:n": NOPERM`)
}
