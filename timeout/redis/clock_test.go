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

func TestBordersOfMinutesYearsAndDaylightSavingMakeNoDifference(t *testing.T) {
	t.Setenv("TZ", enginetest.Zone) // the server's
	own := server{testserver.RedisWithClock(t)}
	engine := openEngine(t, own, redis.Config{})
	enginetest.Borders(t, func(at time.Time) (timeout.Engine, func()) {
		own.SetClock(t, time.Until(at))
		return engine, func() {}
	})
}
