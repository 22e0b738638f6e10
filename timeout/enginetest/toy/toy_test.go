package toy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest/toy"
)

func TestTheToyDoesWhatEveryEngineMust(t *testing.T) {
	enginetest.Run(t, toy.New(), enginetest.Options{
		Open: func(*testing.T) engine.Engine { return toy.New() },
	})
}

func TestTheToyWorksAroundTheBordersOfYears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enginetest.Borders(t, func(at time.Time) (engine.Engine, func()) {
			time.Sleep(time.Until(at))
			return toy.New(), func() {}
		})
	})
}
