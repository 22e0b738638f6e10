package nbiokeepalive

import (
	"testing"

	"github.com/lesismal/nbio/logging"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) {
	logging.SetLevel(logging.LevelNone)
	testmain.Parallel(8)
	testmain.Run(m)
}
