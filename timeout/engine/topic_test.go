package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func TestTheLastSecondIsComparedInEveryZone(t *testing.T) {
	local := time.Local
	time.Local = time.FixedZone("east", 3600)
	defer func() { time.Local = local }()
	end := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	place := engine.Topic{Name: "a", Paused: true, PausedUntil: end}.WithDefaults()
	was := place
	was.Retries = 99 // not as it is
	_, changes, err := was.In(place, 1000, false, was)
	require.False(t, changes)
	require.ErrorIs(t, err, engine.ErrChanged)
}
