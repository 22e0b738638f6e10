package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// With the slots of one server missing, the others refuse each script. They are asked again for more than a second, and
// the answer of each is late.
func TestAClusterThatIsDownIsAnError(t *testing.T) {
	t.Parallel()
	cluster, servers := startCluster(t, 3, 0)
	e := openEngine(t, servers[0], redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 16})
	leaseBatch(t, e, engine.Ask{Max: 10})
	victim, _ := spare(t, cluster, e.Prefix())
	for _, one := range servers {
		require.NoError(t, one.client(t).ConfigSet(ctx, "cluster-node-timeout", "500").Err())
	}
	victim.Kill(t)
	require.Eventually(t, func() bool {
		_, err := e.Lease(ctx, engine.Ask{Topic: "orders", Node: "a", Lease: time.Minute, Max: 10})
		return err != nil
	}, time.Minute, 10*time.Millisecond)
	victim.Restart(t)
	require.Eventually(t, func() bool {
		_, err := e.Lease(ctx, engine.Ask{Topic: "orders", Node: "a", Lease: time.Minute, Max: 10})
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}
