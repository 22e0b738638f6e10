package gnetkeepalive

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) {
	testmain.Parallel(8)
	testmain.Run(m)
}
