package timeout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// If there is nothing to ask for, a rate is no reason to look again.
func TestARateWakesNobodyWhereNothingCanRun(t *testing.T) {
	cfg := Config{Node: "a"}.withDefaults()
	limit := engine.DefaultConcurrency
	full := make([]*attempt, limit)
	for name, w := range map[string]*worker{
		"paused":    {topic: Topic{Paused: true}, places: limit},
		"no slots":  {slots: []int{}, places: limit},
		"no places": {},
		"full":      {queue: full, places: limit},
	} {
		w.c, w.limit, w.limiter = &Center{cfg: cfg}, limit, rate.NewLimiter(1000, 100)
		w.topic.Rate = 1000
		w.topic = w.topic.WithDefaults()
		_, wait := w.plan(time.Now(), 0)
		require.Equal(t, cfg.Poll, wait, name)
	}
}

func TestAHandlerHasAnHourUnlessItsTopicSaysOtherwise(t *testing.T) {
	for want, topic := range map[time.Duration]Topic{
		time.Hour:       {},
		2 * time.Hour:   {Lease: 2 * time.Hour},
		time.Minute:     {Lease: 2 * time.Hour, Timeout: time.Minute},
		100 * time.Hour: {Timeout: 100 * time.Hour},
		0:               {Timeout: -1},
	} {
		topic.Name = "orders"
		require.NoError(t, topic.Check())
		require.Equal(t, want, timeLimit(topic))
		require.Equal(t, want, timeLimit(topic.WithDefaults()))
	}
}
