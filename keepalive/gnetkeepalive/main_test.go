package gnetkeepalive

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/leaktest"
	"github.com/heartwheel-go/heartwheel/internal/paralleltest"
)

func TestMain(m *testing.M) {
	paralleltest.Set(8)
	leaktest.Main(m)
}
