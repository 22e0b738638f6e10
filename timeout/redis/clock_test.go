package redis_test

import (
	"testing"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func TestTheServersClockMayBeWrongAndStepped(t *testing.T) {
	t.Parallel()
	own := server{testserver.RedisWithClock(t)}
	cfg := redis.Config{Prefix: prefix()}
	engines := []engine.Engine{openEngine(t, own, cfg), openEngine(t, own, cfg)}
	enginetest.Clock(t, engines, func(ahead time.Duration) { own.SetClock(t, ahead) })
}

func TestBordersOfMinutesYearsAndDaylightSavingMakeNoDifference(t *testing.T) {
	t.Setenv("TZ", enginetest.Zone) // the server's
	own := server{testserver.RedisWithClock(t)}
	e := openEngine(t, own, redis.Config{})
	enginetest.Borders(t, func(at time.Time) (engine.Engine, func()) {
		own.SetClock(t, time.Until(at))
		return e, func() {}
	})
}
