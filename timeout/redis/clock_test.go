package redis_test

import (
	"testing"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func TestTheServersClockMayBeWrongAndStepped(t *testing.T) {
	t.Parallel()
	own := server{testserver.RedisWithClock(t)}
	cfg := redis.Config{Prefix: prefix()}
	engines := []timeout.Engine{openEngine(t, own, cfg), openEngine(t, own, cfg)}
	enginetest.Clock(t, engines, func(ahead time.Duration) { own.SetClock(t, ahead) })
}
