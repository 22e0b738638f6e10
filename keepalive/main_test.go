package keepalive

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) {
	testmain.Parallel(24)
	goleak.VerifyTestMain(testmain.Patient(m))
}
