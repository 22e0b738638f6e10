package keepalive

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/leaktest"
	"github.com/heartwheel-go/heartwheel/internal/paralleltest"
)

func TestMain(m *testing.M) {
	paralleltest.Set(24)
	goleak.VerifyTestMain(leaktest.Patient(m))
}
